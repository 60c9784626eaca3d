"""Normalization of transcripts before they are compared, by name.

The normalizers are those of Whisper (Radford et al., 2022, appendix C), so that error rates can be
compared with published ones.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from glassformer.errors import ConfigError
from glassformer.metrics.english_numbers import with_digits

Normalizer = Literal["basic", "whisper-english", "none"]
NORMALIZERS: tuple[Normalizer, ...] = get_args(Normalizer)
SPELLINGS = Path(__file__).with_name("english_spellings.txt")
FILLERS = r"\b(hmm|mm|mhm|mmm|uh|um)\b"
LETTERS = {"œ": "oe", "ø": "o", "æ": "ae", "ß": "ss", "đ": "d", "ð": "d", "þ": "th", "ł": "l"}
KEPT = ".%$¢€£"  # symbols that numbers may have
WHOLE = {  # words with an apostrophe or without, and what they stand for
    "won't": "will not", "can't": "can not", "let's": "let us", "ain't": "aint",
    "y'all": "you all", "wanna": "want to", "gotta": "got to", "gonna": "going to",
    "i'ma": "i am going to", "imma": "i am going to", "woulda": "would have",
    "coulda": "could have", "shoulda": "should have", "ma'am": "madam",
}  # fmt: skip
TITLES = {
    "mr": "mister", "mrs": "missus", "st": "saint", "dr": "doctor", "prof": "professor",
    "capt": "captain", "gov": "governor", "ald": "alderman", "gen": "general", "sen": "senator",
    "rep": "representative", "pres": "president", "rev": "reverend", "hon": "honorable",
    "asst": "assistant", "assoc": "associate", "lt": "lieutenant", "col": "colonel",
    "jr": "junior", "sr": "senior", "esq": "esquire",
}  # fmt: skip
ENDINGS = {  # in this order: "'d been" before "'d"
    "'d been": " had been", "'s been": " has been", "'d gone": " had gone", "'s gone": " has gone",
    "'d done": " had done", "'s got": " has got", "n't": " not", "'re": " are", "'s": " is",
    "'d": " would", "'ll": " will", "'t": " not", "'ve": " have", "'m": " am",
}  # fmt: skip


def normalizer_of(name: Normalizer) -> Callable[[str], str]:
    """Returns the function that normalizes a text.

    Args:
        name: "basic", for all languages: lower case, without symbols, punctuation and what stands
            in brackets; "whisper-english", in which besides contractions are written out, numbers
            are in digits, spellings are American and fillers are left out; or "none".
    """
    if name not in NORMALIZERS:
        raise ConfigError(f"There is no normalizer {name!r}; there are {', '.join(NORMALIZERS)}.")
    return FUNCTIONS[name]


def basic(text: str) -> str:
    """Normalizes a text of any language."""
    plain = unicodedata.normalize("NFKC", _without_brackets(text.lower()))
    words = "".join(" " if unicodedata.category(c)[0] in "MSP" else c for c in plain)
    return " ".join(words.lower().split())


def english(text: str) -> str:
    """Normalizes an English text."""
    text = re.sub(FILLERS, "", _without_brackets(text.lower()))
    text = re.sub(r"\s+'", "'", text)
    for short, long in WHOLE.items():
        text = re.sub(rf"\b{short}\b", long, text)
    for short, long in TITLES.items():
        text = re.sub(rf"\b{short}\b", f"{long} ", text)
    for short, long in ENDINGS.items():
        text = re.sub(rf"{short}\b", long, text)
    text = re.sub(r"(\d),(\d)", r"\1\2", text)
    text = re.sub(r"\.([^0-9]|$)", r" \1", text)
    text = with_digits("".join(map(_plain, unicodedata.normalize("NFKD", text))))
    text = " ".join(_spellings().get(word, word) for word in text.split())
    text = re.sub(r"[.$¢€£]([^0-9])", r" \1", text)
    text = re.sub(r"([^0-9])%", r"\1 ", text)
    return " ".join(text.split())


def _without_brackets(text: str) -> str:
    text = re.sub(r"[<\[][^>\]]*[>\]]", "", text)
    return re.sub(r"\(([^)]+?)\)", "", text)


def _plain(character: str) -> str:
    """Returns a character without diacritics; a space for a symbol that no number has."""
    if character in KEPT:
        return character
    if character.lower() in LETTERS:
        return LETTERS[character.lower()]
    kind = unicodedata.category(character)
    return "" if kind == "Mn" else " " if kind[0] in "MSP" else character


@cache
def _spellings() -> dict[str, str]:
    lines = SPELLINGS.read_text("utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if not line.startswith("#"))


FUNCTIONS: dict[Normalizer, Callable[[str], str]] = {
    "basic": basic,
    "whisper-english": english,
    "none": str,
}
