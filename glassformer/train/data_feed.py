"""The micro-batches of this process by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import islice

from glassformer.train.batches import Loader
from glassformer.train.distributed import Worker
from glassformer.train.objectives import TrainingBatch


class DataFeed:
    """This process's share of the training and evaluation batches.

    The rows of a step depend only on the seed and the step; an evaluation always reads the same
    rows, at most `limit` batches of the validation files.
    """

    def __init__(
        self, train: Loader, held_out: Mapping[str, Loader], place: Worker, limit: int | None = None
    ) -> None:
        self._train, self._held_out = train, held_out
        self._place, self._limit = place, limit

    @property
    def tokens(self) -> int:
        """Number of tokens in an epoch."""
        return self._train.tokens_per_epoch

    @property
    def steps(self) -> float:
        """Number of steps in an epoch."""
        return self._train.steps_per_epoch

    @property
    def judges(self) -> Set[str]:
        """The splits among "valid" and "test" that have files."""
        return self._held_out.keys()

    def stretch(self, tokens: int) -> float:
        """Returns the length of a step's rows relative to the usual length.

        The learning rate is multiplied by it (Merity et al., 2017, 5). `tokens` is the number of
        tokens of the step over all processes.
        """
        usual = self._train.usual_tokens
        return 1.0 if usual is None else tokens / usual

    def batches(self, step: int) -> list[TrainingBatch]:
        return self._train.batches(step, self._place.rank, self._place.size)

    def sweep(self, split: str) -> Iterator[TrainingBatch]:
        batches = self._held_out[split].sweep(self._place.rank, self._place.size)
        return islice(batches, self._limit if split == "valid" else None)

    def close(self) -> None:
        """Ends the threads that prefetch batches."""
        self._train.close()
