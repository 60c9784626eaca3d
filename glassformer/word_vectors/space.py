"""Word vectors with nearest neighbors and analogies."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property

import numpy as np

from glassformer.errors import InputError
from glassformer.word_vectors.corpus import Floats


class Vectors:
    """Words, usually from the most frequent on, with one vector each.

    >>> vectors.nearest("king", 3)
    [("queen", 0.71), ("prince", 0.68), ("throne", 0.64)]
    """

    def __init__(self, words: Sequence[str], table: Floats) -> None:
        if len(words) != len(table) or table.ndim != 2:
            raise InputError(f"{len(words):,} words need as many rows, not {table.shape}.")
        self.words, self.table = list(words), np.ascontiguousarray(table, np.float32)

    @property
    def size(self) -> int:
        """Dimension of the vectors."""
        return int(self.table.shape[1])

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.number

    def __getitem__(self, word: str) -> Floats:
        return self.table[self.index(word)]  # type: ignore[no-any-return]

    @cached_property
    def number(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    @cached_property
    def unit(self) -> Floats:
        """The table with rows normalized to length 1."""
        length = np.linalg.norm(self.table, axis=1, keepdims=True)
        length[length == 0] = 1
        unit: Floats = (self.table / length).astype(np.float32)
        return unit

    def index(self, word: str) -> int:
        found = self.number.get(word)
        if found is None:
            near = get_close_matches(word, self.words[:100_000], 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise InputError(f"{word!r} is not among the {len(self):,} words{hint}")
        return found

    def similarity(self, a: str, b: str) -> float:
        """Returns the cosine similarity of two words."""
        return float(self.unit[self.index(a)] @ self.unit[self.index(b)])

    def nearest(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """Returns the `count` words with the highest cosine similarity, with their similarities."""
        return self._most(self.unit[self.index(word)], {self.index(word)}, count)

    def analogy(self, a: str, b: str, c: str, count: int = 10) -> list[tuple[str, float]]:
        """Returns the words that are to `c` as `b` is to `a`, with their cosine similarities.

        They are the nearest to b - a + c, each normalized to length 1 (3CosAdd).
        """
        places = [self.index(word) for word in (a, b, c)]
        goal = self.unit[places[1]] - self.unit[places[0]] + self.unit[places[2]]
        return self._most(goal / (np.linalg.norm(goal) or 1), set(places), count)

    def _most(self, goal: Floats, without: set[int], count: int) -> list[tuple[str, float]]:
        cosines = self.unit @ goal
        enough = min(count + len(without), len(self))
        best = np.argpartition(-cosines, enough - 1)[:enough]
        ranked = sorted((-float(cosines[i]), int(i)) for i in best if int(i) not in without)
        return [(self.words[i], -cosine) for cosine, i in ranked[:count]]
