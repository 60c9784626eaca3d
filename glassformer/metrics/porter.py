"""Porter's stemmer (1980) for English, with NLTK's modifications.

Published ROUGE scores use this version. Words must be in lower case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

Rule = tuple[str, str, Callable[[str], bool] | None]  # suffix, replacement, condition on the rest

IRREGULAR = {
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "innings": "inning",
    "outings": "outing",
    "cannings": "canning",
}
ITSELF = "sky news inning outing canning howe proceed exceed succeed"
IRREGULAR |= {word: word for word in ITSELF.split()}


@lru_cache(maxsize=2**16)
def stem(word: str) -> str:
    """Returns the stem of a word in lower case.

    >>> stem("relational")
    'relat'
    """
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) <= 2:
        return word
    for step in (_plural, _past, _final_y, _double_suffix, _suffix, _ending, _final_e, _final_l):
        word = step(word)
    return word


def _consonants(word: str) -> list[bool]:
    """Flags each letter that is a consonant; y is one unless it follows a consonant."""
    flags: list[bool] = []
    for letter in word:
        flags.append(letter not in "aeiou" if letter != "y" else not flags or not flags[-1])
    return flags


def _measure(word: str) -> int:
    """Counts how often a vowel is followed by a consonant: Porter's m."""
    flags = _consonants(word)
    return sum(after and not before for before, after in pairwise(flags))


def _long(word: str) -> bool:
    return _measure(word) > 0


def _longer(word: str) -> bool:
    return _measure(word) > 1


def _has_vowel(word: str) -> bool:
    return not all(_consonants(word))


def _doubled(word: str) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and _consonants(word)[-1]


def _short(word: str) -> bool:
    """Whether a word ends with consonant, vowel and consonant (hop, fil), the last not w, x or y.

    A word of just vowel and consonant is short, too.
    """
    flags = _consonants(word)
    if len(word) == 2:
        return flags == [False, True]
    return flags[-3:] == [True, False, True] and word[-1] not in "wxy"


def _apply(word: str, rules: Sequence[Rule]) -> str:
    """Applies the first rule whose suffix matches, or none if its condition does not hold."""
    for suffix, instead, condition in rules:
        if word.endswith(suffix):
            rest = word[: len(word) - len(suffix)]
            return rest + instead if condition is None or condition(rest) else word
    return word


def _plural(word: str) -> str:
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    return _apply(
        word, [("sses", "ss", None), ("ies", "i", None), ("ss", "ss", None), ("s", "", None)]
    )


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _long(word[:-3]) else word
    for suffix in ("ed", "ing"):
        rest = word.removesuffix(suffix)
        if rest != word and _has_vowel(rest):
            return _mended(rest)
    return word


def _mended(word: str) -> str:
    """Repairs the stem after -ed and -ing: hop(p)ing, conflat(e)ed, fil(e)ing."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _doubled(word):
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _short(word) else word


def _final_y(word: str) -> str:
    rest = word.removesuffix("y")
    return rest + "i" if rest != word and len(rest) > 1 and _consonants(rest)[-1] else word


def _double_suffix(word: str) -> str:
    if word.endswith("alli") and _long(word[:-4]):
        return _double_suffix(word[:-2])
    return _apply(word, DOUBLE) if not word.endswith("logi") else _log(word)


def _log(word: str) -> str:
    """Counts the l as part of the stem, so that geo and theo are long enough."""
    return word[:-1] if _long(word[:-3]) else word


def _suffix(word: str) -> str:
    return _apply(word, SINGLE)


def _ending(word: str) -> str:
    return _apply(word, ENDINGS)


def _final_e(word: str) -> str:
    rest = word.removesuffix("e")
    if rest == word:
        return word
    return rest if _longer(rest) or (_measure(rest) == 1 and not _short(rest)) else word


def _final_l(word: str) -> str:
    return word[:-1] if word.endswith("ll") and _longer(word[:-1]) else word


def _rules(words: str, condition: Callable[[str], bool]) -> tuple[Rule, ...]:
    """Parses rules written as `suffix:replacement`, in the order in which they are tried."""
    pairs = (word.split(":") for word in words.split())
    return tuple((suffix, instead, condition) for suffix, instead in pairs)


DOUBLE = _rules(
    "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e "
    "ousli:ous ization:ize ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous "
    "aliti:al iviti:ive biliti:ble fulli:ful",
    _long,
)
SINGLE = _rules("icate:ic ative: alize:al iciti:ic ical:ic ful: ness:", _long)
ENDINGS = (
    *_rules("al: ance: ence: er: ic: able: ible: ant: ement: ment: ent:", _longer),
    ("ion", "", lambda rest: _longer(rest) and rest[-1] in "st"),
    *_rules("ou: ism: ate: iti: ous: ive: ize:", _longer),
)
