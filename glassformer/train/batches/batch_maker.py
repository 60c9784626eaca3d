"""Makes the batches of a step from the stored examples; the same in every process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from glassformer.errors import ConfigError
from glassformer.train.batches.collate import runs_of
from glassformer.train.batches.packing import RowSource
from glassformer.train.batches.sampler import Even, Numbers, Order
from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Rows

Source = Callable[[Numbers], Rows]
Request = tuple[int, int, int]  # a step, the rank of a process, and the number of processes


@dataclass(frozen=True)
class BatchMaker:
    """What determines the batches of a run, apart from the step.

    Attributes:
        rows: The rows.
        order: Which rows form a batch.
        objective: Makes the random choices and collates.
        seed: Seed of the random choices.
        accumulate: Micro-batches per step, over all processes.
        for_gpu: Whether to add the inputs that GPU kernels read in place of masks.
    """

    rows: RowSource
    order: Order
    objective: Objective
    seed: int
    accumulate: int = 1
    for_gpu: bool = False

    def batches(self, request: Request) -> list[TrainingBatch]:
        """Returns the micro-batches of a step: of each, the share of one process."""
        step, rank, world = request
        made: list[TrainingBatch] = []
        before = 0
        for batch in range(step * self.accumulate, (step + 1) * self.accumulate):
            places = self.order.batch(batch)
            slots = np.arange(len(places))[rank_slice(len(places), rank, world)]
            epochs, numbers = np.array(places)[slots].T
            draws = RowRandom.of(self.seed, step, rows=before + slots)

            def source(numbers: Numbers, epochs: Numbers = epochs) -> Rows:
                return self.rows.rows(epochs, numbers)

            varied = self._varied(source, self.rows.count, numbers, draws)
            varied = self.objective.augment(varied, draws)
            if isinstance(self.order, Even):
                made.append(self._whole(self.objective.collate_to(varied, self.order.slots(batch))))
            else:
                made.append(self._whole(self.objective.collate(varied)))
            before += len(places)
        return made

    def sweep(self, rank: int, world: int) -> Iterator[TrainingBatch]:
        """Yields everything once, in a fixed order and with fixed random choices."""
        for batch in self.order.sweep(self.rows.all, world):
            numbers = batch[rank_slice(len(batch), rank, world)]
            draws = RowRandom.of(self.seed, rows=numbers)
            varied = self._varied(self.rows.fixed, self.rows.all, numbers, draws)
            yield self._whole(self.objective.collate(varied))

    def _varied(self, source: Source, count: int, numbers: Numbers, draws: RowRandom) -> Rows:
        """Returns rows after the objective's random choices.

        The rows also have the fields of the random other rows that the objective needs.
        """
        rows = source(numbers)
        for index in range(self.objective.others):
            other = source(draws.below(f"other.{index}", count)).columns
            rows |= {f"other.{index}.{name}": column for name, column in other.items()}
        return self.objective.vary(rows, draws)

    def _whole(self, batch: TrainingBatch) -> TrainingBatch:
        if self.for_gpu:
            batch.inputs |= runs_of(batch.inputs, self.rows.runs_per_row)
        return batch


def rank_slice(rows: int, rank: int, world: int) -> slice:
    """Returns which rows of a batch one process takes."""
    if rows < world:
        raise ConfigError(
            f"A batch of {rows} rows cannot be shared by {world} processes; raise train.batch_size "
            "(or data.tokens_per_batch), or use fewer."
        )
    return slice(rank * rows // world, (rank + 1) * rows // world)
