"""Train room, what the loop eats: micro-batches by the number of their step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from glassformer.train.objectives import Batch


class Feed(Protocol):
    """Which rows a step reads depends on the seed and the step's number alone."""

    @property
    def tokens(self) -> int:
        """So many are read in one epoch."""

    @property
    def steps(self) -> float:
        """So many steps are an epoch."""

    def batches(self, step: int) -> Sequence[Batch]:
        """This process's share of the micro-batches of a step."""

    @property
    def judges(self) -> bool:
        """Whether there are validation files."""

    def valid(self) -> Iterator[Batch]:
        """The batches of the validation files, always the same."""
