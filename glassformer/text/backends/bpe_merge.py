"""BPE within words, as FSMT, XLM and CTRL use it.

A word is split into characters, the last of which carries the end-of-word mark; then neighbors are
merged, the pair that was learned first before all others. It is written here, because the
`tokenizers` library requires every merge in the vocabulary, and FSMT's two vocabularies share one
list of merges.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from glassformer.text.loading.files import read_merges

END_OF_WORD = "</w>"
REMEMBERED = 2**16
"""The maximum number of words whose pieces are cached."""


@dataclass(frozen=True)
class BytePairs:
    """The merges of a BPE model and a cache of split words."""

    ranks: Mapping[tuple[str, str], int]
    known: dict[str, list[str]] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: Path) -> "BytePairs":
        pairs = read_merges(path, counted=True)
        return cls({pair: rank for rank, pair in enumerate(pairs)})

    def cut(self, word: str) -> list[str]:
        """Returns the pieces of a word."""
        pieces = self.known.get(word)
        if pieces is None:
            pieces = merged([*word[:-1], word[-1] + END_OF_WORD], self.ranks)
            if len(self.known) < REMEMBERED:
                self.known[word] = pieces
        return pieces

    def merge_pieces(self, pieces: list[str]) -> str:
        return "".join(piece.replace(END_OF_WORD, " ") for piece in pieces)


def merged(parts: list[str], ranks: Mapping[tuple[str, str], int]) -> list[str]:
    """Merges the neighbors whose merge was learned first, until no merge applies."""
    while True:
        pairs = [pair for pair in pairwise(parts) if pair in ranks]
        if not pairs:
            return parts
        first = min(pairs, key=ranks.__getitem__)
        joined: list[str] = []
        for part in parts:
            if joined and (joined[-1], part) == first:
                joined[-1] += part
            else:
                joined.append(part)
        parts = joined
