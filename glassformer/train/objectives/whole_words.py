"""Word boundaries from the tokens of a vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, groupby
from string import punctuation

import numpy as np
from numpy.typing import NDArray

from glassformer.text import Tokenizer
from glassformer.text.segmenter import is_han, make_segmenter
from glassformer.train.objectives.rows import RaggedColumn
from glassformer.train.objectives.text_inputs import Ids

Flags = NDArray[np.bool_]
OPENS = ("Ġ", "Ċ", "▁", " ", "\n")  # prefix of a token that begins a word: byte-level BPE,
# SentencePiece, characters
CONTINUES = "##"  # prefix of a token that continues one: WordPiece
CLOSES = "</w>"  # suffix of a token that ends a word: GPT, XLM
GOES_ON = "@@"  # suffix of a token that does not: CTRL
STOPS = tuple(".!?。！？")  # suffix of a token that ends a sentence


class Vocabulary:
    """Properties of every token by its id.

    A vocabulary marks word boundaries in one of these four ways; the one that most tokens show is
    used. Without any of them, each token is a word. Punctuation is a word of its own. In Chinese
    text, which has none of these marks, the words are those of a segmenter, if there is one.
    """

    def __init__(self, tokenizer: Tokenizer, segmenter: str | None = None) -> None:
        tokens = tokenizer.vocabulary
        size = max(tokens.values()) + 1

        def flags(test: Callable[[str], bool]) -> Flags:
            found = np.zeros(size, dtype=bool)
            found[[id for token, id in tokens.items() if test(token)]] = True
            return found

        self.special = flags(lambda token: tokens[token] in tokenizer.special_ids)
        self.ordinary: Ids = np.flatnonzero(flags(lambda token: True) & ~self.special)
        none, every = np.zeros(size, dtype=bool), np.ones(size, dtype=bool)
        opens = flags(lambda token: token.startswith(OPENS))
        continues = flags(lambda token: token.startswith(CONTINUES))
        closes = flags(lambda token: token.endswith(CLOSES))
        goes_on = flags(lambda token: token.endswith(GOES_ON))
        conventions = [
            (opens, (opens, none)),
            (continues, (~continues, none)),
            (closes, (none, closes)),
            (goes_on, (none, ~goes_on)),
        ]
        shown, (begins, ends) = max(conventions, key=lambda convention: convention[0].sum())
        if not shown.any():
            begins = every
        alone = flags(_punctuation) | self.special
        self.begins, self.ends = begins | alone, ends | alone
        self.segmenter = None if segmenter is None else make_segmenter(segmenter)
        self.chinese: dict[int, str] = {}  # the text of each token that has Chinese characters only
        if segmenter is not None:
            texts = {id: tokenizer.decode([id]).strip() for id in self.ordinary.tolist()}
            self.chinese = {
                id: text for id, text in texts.items() if text and all(map(is_han, text))
            }
        self.stops = flags(lambda token: token.removesuffix(CLOSES).endswith(STOPS))

    def starts(self, tokens: RaggedColumn, documents: RaggedColumn | None = None) -> Flags:
        """Returns a mask that is True where a word begins."""
        values = tokens.values
        found: Flags = self.begins[values]
        found[1:] |= self.ends[values[:-1]]
        if self.segmenter is not None:
            self._segment(tokens, found)
        found[tokens.starts[tokens.lengths > 0]] = True
        if documents is not None:
            found[1:] |= documents.values[1:] != documents.values[:-1]
        return found

    def _segment(self, tokens: RaggedColumn, begins: Flags) -> None:
        """Sets where words begin in each run of Chinese tokens of a row."""
        assert self.segmenter is not None
        ids = tokens.values.tolist()
        rows = np.repeat(np.arange(len(tokens.lengths)), tokens.lengths).tolist()
        runs = groupby(range(len(ids)), lambda place: (rows[place], ids[place] in self.chinese))
        for (_, chinese), run in runs:
            if chinese:
                places = list(run)
                texts = [self.chinese[ids[place]] for place in places]
                starts = self.segmenter.starts("".join(texts))
                offsets = [0, *accumulate(map(len, texts))][:-1]
                begins[places] = [offset in starts for offset in offsets]
                begins[places[-1] + 1 : places[-1] + 2] = True  # what follows is another word


def _punctuation(token: str) -> bool:
    """Returns whether a token is punctuation, or only the space before it."""
    return all(letter in punctuation for letter in token.lstrip("".join(OPENS)))
