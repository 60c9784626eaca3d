"""Train room, what the loop eats: micro-batches by the number of their step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from glassformer.train.data import Loader
from glassformer.train.distributed import Place
from glassformer.train.objectives import Batch


class Feed:
    """This process's share of what all read. Which rows a step reads depends on the seed and the
    step's number alone; an evaluation reads the same ones each time, at most `limit` batches."""

    def __init__(
        self, train: Loader, valid: Loader | None, place: Place, limit: int | None = None
    ) -> None:
        self._train, self._valid = train, valid
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
    def judges(self) -> bool:
        """Whether there are validation files."""
        return self._valid is not None

    def stretch(self, tokens: int) -> float:
        """How long the rows of a step are, of so many tokens in all, beside their usual length: so
        much larger is its learning rate (Merity et al., 2017, 5)."""
        usual = self._train.usual_tokens
        return 1.0 if usual is None else tokens / usual

    def batches(self, step: int) -> list[Batch]:
        return self._train.batches(step, self._place.rank, self._place.size)

    def valid(self) -> Iterator[Batch]:
        assert self._valid is not None
        return islice(self._valid.sweep(self._place.rank, self._place.size), self._limit)

    def close(self) -> None:
        """Ends the threads that work ahead."""
        self._train.close()
