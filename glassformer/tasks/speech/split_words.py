"""Words of a transcript and the tokens of each, as OpenAI's program splits them."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence

UNSPACED = ("zh", "ja", "th", "lo", "my", "yue")
"""Languages that are written without spaces: each character is a word."""
REPLACEMENT = "\ufffd"

Word = tuple[str, tuple[int, ...]]


def split_words(
    tokens: Sequence[int], language: str | None, decode: Callable[[Sequence[int]], str]
) -> list[Word]:
    """Returns the words with their tokens.

    Args:
        tokens: Tokens of text.
        language: The code of the language.
        decode: Returns the text of tokens.
    """
    parts = _characters(tokens, decode)
    return parts if language in UNSPACED else _joined(parts)


def _characters(tokens: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[Word]:
    """Splits tokens where their bytes are whole characters."""
    whole, found, offset = decode(tokens), list[Word](), 0
    current: list[int] = []
    for token in tokens:
        current.append(token)
        text = decode(current)
        place = text.find(REPLACEMENT)
        if place < 0 or whole[offset + place : offset + place + 1] == REPLACEMENT:
            found.append((text, tuple(current)))
            current, offset = [], offset + len(text)
    if current:  # bytes that are no character
        found.append((decode(current), tuple(current)))
    return found


def _joined(parts: Sequence[Word]) -> list[Word]:
    """Joins parts up to the next space or punctuation."""
    words: list[Word] = []
    for text, tokens in parts:
        begins = text.startswith(" ") or text.strip() in string.punctuation
        if begins or not words:
            words.append((text, tokens))
        else:
            words[-1] = (words[-1][0] + text, words[-1][1] + tokens)
    return words
