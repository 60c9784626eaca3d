"""English numbers and amounts of money in digits, as Whisper's normalizer writes them.

"two hundred and five dollars" becomes "$205", "nineteen eighty four" 1984, "oh seven" 07, and
"three point one four percent" 3.14%.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

ZEROS = ("o", "oh", "zero")
SMALL = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
ONES = {name: number for number, name in enumerate(SMALL, 1)}
TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90,
}  # fmt: skip
POWERS = (
    "thousand", "million", "billion", "trillion", "quadrillion", "quintillion", "sextillion",
    "septillion", "octillion", "nonillion", "decillion",
)  # fmt: skip
MULTIPLIERS = {"hundred": 100} | {name: 1000**power for power, name in enumerate(POWERS, 1)}
ORDINALS = {"zeroth": (0, "th"), "first": (1, "st"), "second": (2, "nd"), "third": (3, "rd"),
            "fifth": (5, "th"), "twelfth": (12, "th")}  # fmt: skip

Suffixed = Mapping[str, tuple[int, str]]  # a number with the ending "s", "st", "nd", "rd" or "th"
ONES_ENDED: Suffixed = {
    **{"sixes" if name == "six" else f"{name}s": (value, "s") for name, value in ONES.items()},
    **ORDINALS,
    **{
        f"{name}h" if name.endswith("t") else f"{name}th": (value, "th")
        for name, value in ONES.items()
        if value > 3 and value not in (5, 12)
    },
}
TENS_ENDED: Suffixed = {
    **{name.replace("y", "ies"): (value, "s") for name, value in TENS.items()},
    **{name.replace("y", "ieth"): (value, "th") for name, value in TENS.items()},
}
MULTIPLIERS_ENDED: Suffixed = {
    **{f"{name}s": (value, "s") for name, value in MULTIPLIERS.items()},
    **{f"{name}th": (value, "th") for name, value in MULTIPLIERS.items()},
}
SIGNS = {"minus": "-", "negative": "-", "plus": "+", "positive": "+"}
CURRENCIES = {"pound": "£", "euro": "€", "dollar": "$", "cent": "¢"}
CURRENCIES |= {f"{name}s": sign for name, sign in CURRENCIES.items()}
MARKS = {*SIGNS.values(), *CURRENCIES.values()}
JOINING = ("and", "double", "triple", "point")
DIGITS = {*ONES, *TENS, *ZEROS}
WORDS = {*DIGITS, *ONES_ENDED, *TENS_ENDED, *MULTIPLIERS, *MULTIPLIERS_ENDED, *SIGNS, *CURRENCIES,
         "per", "percent", *JOINING}  # fmt: skip
NUMBER = re.compile(r"\d+(\.\d+)?")


def with_digits(text: str) -> str:
    """Returns a lower-case text with its numbers in digits; the number 1 is written "one"."""
    text = _halves(text)
    text = re.sub(r"([a-z])([0-9])", r"\1 \2", text)
    text = re.sub(r"([0-9])([a-z])", r"\1 \2", text)
    text = re.sub(r"([0-9])\s+(st|nd|rd|th|s)\b", r"\1\2", text)
    text = " ".join(NumberWriter(text.split()).words())
    text = re.sub(
        r"([€£$])([0-9]+) (?:and )?¢([0-9]{1,2})\b",
        lambda found: f"{found[1]}{found[2]}.{int(found[3]):02d}",
        text,
    )
    text = re.sub(r"[€£$]0.([0-9]{1,2})\b", lambda found: f"¢{int(found[1])}", text)
    return re.sub(r"\b1(s?)\b", r"one\1", text)


def _halves(text: str) -> str:
    """Writes "two and a half" as "two point five"."""
    parts: list[str] = []
    *before, last = re.split(r"\band\s+a\s+half\b", text)
    for part in before:
        if part.strip():
            word = part.rsplit(maxsplit=2)[-1]
            half = "point five" if word in DIGITS or word in MULTIPLIERS else "and a half"
            parts += [part, half]
    return " ".join([*parts, last] if last.strip() else parts)


class NumberWriter:
    """Replaces the number words of a sentence, read from left to right.

    Attributes:
        value: The number so far: an int that can be added to, or its digits; None outside.
        mark: The sign or currency that is written before it.
    """

    def __init__(self, sentence: Sequence[str]) -> None:
        self.sentence = sentence
        self.value: int | str | None = None
        self.mark = ""
        self.written: list[str] = []

    def words(self) -> list[str]:
        skip = False
        padded = ["", *self.sentence, ""]
        for before, word, after in zip(padded, padded[1:], padded[2:], strict=False):
            skip = not skip and bool(word) and self._read(before, word, after)
        self._end()
        return self.written

    def _read(self, before: str, word: str, after: str) -> bool:
        """Reads a word; returns whether the next one is read with it."""
        marked = word[0] in MARKS
        digits = word[1:] if marked else word
        follows = after in WORDS or NUMBER.fullmatch(after) is not None
        if NUMBER.fullmatch(digits):
            self._digits(word, digits, marked)
        elif word not in WORDS:
            self._end(word)
        elif word in ZEROS:
            self.value = f"{self.value or ''}0"
        elif word in DIGITS:
            self.value = self._added(word, before, ONES.get(word) or TENS[word])
        elif word in ONES_ENDED or word in TENS_ENDED:
            number, ending = ONES_ENDED.get(word) or TENS_ENDED[word]
            self._write(f"{self._added(word, before, number)}{ending}")
        elif word in MULTIPLIERS:
            self.value = self._multiplied(MULTIPLIERS[word])
        elif word in MULTIPLIERS_ENDED:
            number, ending = MULTIPLIERS_ENDED[word]
            self._write(f"{self._multiplied(number, zero=True)}{ending}")
        elif word in SIGNS:
            self._end()
            if follows:
                self.mark = SIGNS[word]
            else:
                self._write(word)
        elif word in CURRENCIES:
            if self.value is None:
                self._write(word)
            else:
                self.mark = CURRENCIES[word]
                self._end()
        elif word in ("per", "percent"):
            return self._percent(word, after)
        elif not follows:
            self._end(word)
        else:
            return self._join(before, word, after)
        return False

    def _digits(self, word: str, digits: str, marked: bool) -> None:
        """Reads a number in digits; after a point it continues the number before."""
        if isinstance(self.value, str) and self.value.endswith("."):
            self.value += word
            return
        self._end()
        self.mark = word[0] if marked else self.mark
        exact = Fraction(digits)
        self.value = exact.numerator if exact.denominator == 1 else digits

    def _added(self, word: str, before: str, number: int) -> int | str:
        """Returns the value with a number up to 99: added where it fits, else its digits behind.

        "twenty" and "one" are 21, "nineteen" and "eighty" 1980.
        """
        value, tens = self.value, word in TENS or word in TENS_ENDED
        if value is None:
            return number
        if isinstance(value, str) or (not tens and before in ONES):
            if not tens and before in TENS and number < 10:
                return f"{str(value)[:-1]}{number}"
            return f"{value}{number}"
        room = 10 if number < 10 else 100
        return value + number if value % room == 0 else f"{value}{number}"

    def _multiplied(self, number: int, *, zero: bool = False) -> int:
        """Returns the value times hundred, thousand, ...; of 2,300 thousand only the 300 are.

        A value that cannot be multiplied is written, and a new one begins.
        """
        value = self.value
        if value is None:
            return number
        if isinstance(value, int) and (value or zero):
            return value // 1000 * 1000 + value % 1000 * number
        try:
            exact = Fraction(value) * number
        except ValueError:
            exact = Fraction(1, 2)
        if exact.denominator == 1:
            return exact.numerator
        self._end()
        return number

    def _percent(self, word: str, after: str) -> bool:
        if self.value is None:
            self._write(word)
        elif word == "percent" or after == "cent":
            self._write(f"{self.value}%")
            return word == "per"
        else:
            self._end(word)
        return False

    def _join(self, before: str, word: str, after: str) -> bool:
        """Reads "and", "double", "triple" or "point" before a number."""
        if word == "and":
            if before not in MULTIPLIERS:
                self._end(word)
        elif word == "point":
            if after in DIGITS or NUMBER.fullmatch(after):
                self.value = f"{self.value or ''}."
        elif after in ONES or after in ZEROS:
            self.value = f"{self.value or ''}{str(ONES.get(after, 0)) * (2 + (word == 'triple'))}"
            return True
        else:
            self._end(word)
        return False

    def _end(self, word: str | None = None) -> None:
        """Writes the number, then a word that is not part of it."""
        if self.value is not None:
            self._write(str(self.value))
        if word is not None:
            self._write(word)

    def _write(self, text: str) -> None:
        self.written.append(f"{self.mark}{text}")
        self.value, self.mark = None, ""
