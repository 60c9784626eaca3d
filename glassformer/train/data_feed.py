"""Micro-batches by the number of their step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import islice

from glassformer.train.data import Loader
from glassformer.train.distributed import Worker
from glassformer.train.objectives import TrainingBatch


class DataFeed:
    """This process's share of what all read. Which rows a step reads depends on the seed and the
    step's number alone; an evaluation reads the same ones each time, of the validation files at
    most `limit` batches."""

    def __init__(
        self, train: Loader, held_out: Mapping[str, Loader], place: Worker, limit: int | None = None
    ) -> None:
        self._train, self._held_out = train, held_out
        self._place, self._limit = place, limit

    @property
    def tokens(self) -> int:
        """So many are read in one epoch."""
        return self._train.tokens_per_epoch

    @property
    def steps(self) -> float:
        """So many steps are an epoch."""
        return self._train.steps_per_epoch

    @property
    def judges(self) -> Set[str]:
        """Which of "valid" and "test" there are files of."""
        return self._held_out.keys()

    def stretch(self, tokens: int) -> float:
        """How long the rows of a step are, of so many tokens in all, beside their usual length: so
        much larger is its learning rate (Merity et al., 2017, 5)."""
        usual = self._train.usual_tokens
        return 1.0 if usual is None else tokens / usual

    def batches(self, step: int) -> list[TrainingBatch]:
        return self._train.batches(step, self._place.rank, self._place.size)

    def sweep(self, split: str) -> Iterator[TrainingBatch]:
        batches = self._held_out[split].sweep(self._place.rank, self._place.size)
        return islice(batches, self._limit if split == "valid" else None)

    def close(self) -> None:
        """Ends the threads that work ahead."""
        self._train.close()
