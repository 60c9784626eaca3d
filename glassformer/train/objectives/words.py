"""Train room, objectives: where words begin, as the tokens of a vocabulary tell it."""

from __future__ import annotations

from string import punctuation

import numpy as np
from numpy.typing import NDArray

from glassformer.text import Tokenizer
from glassformer.train.objectives.tokens import Ids

Flags = NDArray[np.bool_]
OPENS = ("Ġ", "Ċ", "▁", " ", "\n")  # byte-level, SentencePiece, characters
CLOSES = "</w>"  # GPT, XLM
GOES_ON = "@@"  # CTRL, FSMT's ancestors
CONTINUES = "##"  # WordPiece


class Vocabulary:
    """What is known of every token by its id.

    A vocabulary marks either the tokens that begin a word, those that go on with one, or those
    that end one; the marks that most tokens have say which it is. One without marks has a word a
    token. Punctuation is a word of its own.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokens = tokenizer.vocabulary
        size = max(tokens.values()) + 1
        self.special = np.zeros(size, dtype=bool)
        self.special[list(tokenizer.special_ids)] = True
        self.ordinary: Ids = np.flatnonzero(~self.special & _there(tokens.values(), size))
        opens, continues, closes, goes_on, marks = (np.zeros(size, dtype=bool) for _ in range(5))
        for token, id in tokens.items():
            opens[id] = token.startswith(OPENS)
            continues[id] = token.startswith(CONTINUES)
            closes[id] = token.endswith(CLOSES)
            goes_on[id] = token.endswith(GOES_ON)
            bare = token.lstrip("".join(OPENS)).removesuffix(CLOSES)
            marks[id] = all(letter in punctuation for letter in bare)  # or nothing but a space
        kinds = {
            "opens": (opens, np.zeros(size, dtype=bool)),
            "continues": (~continues, np.zeros(size, dtype=bool)),
            "closes": (np.zeros(size, dtype=bool), closes),
            "goes on": (np.zeros(size, dtype=bool), ~goes_on),
        }
        counts = {
            "opens": opens.sum(),
            "continues": continues.sum(),
            "closes": closes.sum(),
            "goes on": goes_on.sum(),
        }
        most = max(counts, key=lambda kind: counts[kind])
        begins, ends = kinds[most] if counts[most] else (np.ones(size, dtype=bool), goes_on)
        self.begins = begins | marks | self.special
        self.ends = ends | marks | self.special

    def starts(self, tokens: Ids, documents: Ids | None = None) -> Flags:
        """True where a word begins."""
        found: Flags = self.begins[tokens]
        found[:1] = True
        found[1:] |= self.ends[tokens[:-1]]
        if documents is not None:
            found[1:] |= documents[1:] != documents[:-1]
        return found


def _there(ids: object, size: int) -> Flags:
    there = np.zeros(size, dtype=bool)
    there[list(ids)] = True  # type: ignore[call-overload]
    return there
