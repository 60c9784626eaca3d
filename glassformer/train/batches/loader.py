"""The data loader: the batches of a step, and those of an evaluation.

Rows, their order and their random choices depend only on the seed and the step; threads that work
ahead only save time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from glassformer.data.data_config import DataSettings
from glassformer.errors import ConfigError, DataError
from glassformer.train.batches.memmap_dataset import MemmapDataset
from glassformer.train.batches.mixing import Shared
from glassformer.train.batches.packing import (
    PackedRows,
    RowSource,
    SingleRows,
    StreamRows,
    VaryingRows,
)
from glassformer.train.batches.sampler import Bucketed, Even, InTurn, Order, Shuffled
from glassformer.train.objectives.objective import Example, Objective, TrainingBatch


class Loader:
    """Batches by step.

    A step has `accumulate` batches over all processes; `ahead` steps are prepared in advance.
    """

    def __init__(
        self,
        rows: RowSource,
        order: Order,
        objective: Objective,
        *,
        seed: int,
        accumulate: int = 1,
        ahead: int = 2,
    ) -> None:
        self.rows, self.order, self.objective = rows, order, objective
        self.seed, self.accumulate, self.ahead = seed, accumulate, ahead
        self._threads: ThreadPoolExecutor | None = None
        self._coming: dict[tuple[int, int, int], Future[list[TrainingBatch]]] = {}

    @property
    def steps_per_epoch(self) -> float:
        return self.order.epoch / self.accumulate

    @property
    def tokens_per_epoch(self) -> int:
        return self.rows.tokens

    @property
    def usual_tokens(self) -> int | None:
        """Usual number of tokens of a step, if row lengths are drawn at random; otherwise None."""
        if not isinstance(self.rows, VaryingRows):
            return None
        return self.rows.length * self.rows.batch * self.accumulate

    def epochs(self, steps: int) -> float:
        """Returns the number of epochs in so many steps."""
        return steps / self.steps_per_epoch

    def batches(self, step: int, rank: int = 0, world: int = 1) -> list[TrainingBatch]:
        """Returns the micro-batches of a step: of each, the share of process `rank` of `world`."""
        if not self.ahead:
            return self._made(step, rank, world)
        self._threads = self._threads or ThreadPoolExecutor(1, "glassformer-data")
        wanted = [(number, rank, world) for number in range(step, step + self.ahead + 1)]
        self._coming = {key: self._coming[key] for key in wanted if key in self._coming}
        for key in wanted:
            if key not in self._coming:
                self._coming[key] = self._threads.submit(self._made, *key)
        return self._coming.pop(wanted[0]).result()

    def sweep(self, rank: int = 0, world: int = 1) -> Iterator[TrainingBatch]:
        """Yields everything once, in a fixed order and with fixed random choices.

        Every process gets the same number of batches.
        """
        if self.rows.all < world:
            raise DataError(
                f"{world} processes cannot share {self.rows.all} rows of data; add some, or use "
                "fewer processes."
            )
        for batch in self.order.sweep(self.rows.all, world):
            examples = []
            for number in batch[_share(len(batch), rank, world)].tolist():
                draws = (self.seed, number)
                examples.append(self._varied(self.rows.fixed, self.rows.all, number, draws))
            yield self.objective.collate(examples)

    def close(self) -> None:
        """Stops the work ahead; the loader can still be used afterward."""
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        self._threads, self._coming = None, {}

    def _made(self, step: int, rank: int, world: int) -> list[TrainingBatch]:
        made: list[TrainingBatch] = []
        before = 0
        for batch in range(step * self.accumulate, (step + 1) * self.accumulate):
            places = self.order.batch(batch)
            slots = range(len(places))[_share(len(places), rank, world)]
            examples = []
            for slot in slots:
                epoch, number = places[slot]
                of_epoch = partial(self.rows.row, epoch)
                draws = (self.seed, step, before + slot)
                examples.append(self._varied(of_epoch, self.rows.count, number, draws))
            made.append(self._collated(examples, batch))
            before += len(places)
        return made

    def _collated(self, examples: Sequence[Example], batch: int) -> TrainingBatch:
        if isinstance(self.order, Even):
            return self.objective.collate_to(examples, self.order.slots(batch))
        return self.objective.collate(examples)

    def _varied(
        self, row: Callable[[int], Example], count: int, number: int, seed: tuple[int, ...]
    ) -> Example:
        """Returns a row after the objective's random choices.

        The row also has the fields of the random other rows that the objective needs.
        """
        found = row(number)
        if not self.objective.others and not self.objective.draws(found):
            return found  # creating a generator takes longer than reading the row
        rng = np.random.default_rng(seed)
        others = [row(int(rng.integers(count))) for _ in range(self.objective.others)]
        for i, other in enumerate(others):
            found |= {f"other.{i}.{name}": value for name, value in other.items()}
        return self.objective.vary(found, rng)


class DataModule:
    """The training and evaluation batches of one process.

    The rows of a step depend only on the seed and the step; an evaluation always reads the same
    rows, at most `max_valid_batches` batches of the validation files.

    Args:
        train: Loader of the training files.
        held_out: Loaders of the other splits, "valid" and "test", that have files.
        rank: Data-parallel rank of this process.
        size: Number of data-parallel ranks.
        max_valid_batches: Maximum number of validation batches; None for all.
    """

    def __init__(
        self,
        train: Loader,
        held_out: Mapping[str, Loader],
        rank: int = 0,
        size: int = 1,
        max_valid_batches: int | None = None,
    ) -> None:
        self._train, self._held_out = train, held_out
        self._rank, self._size = rank, size
        self._max_valid_batches = max_valid_batches

    @property
    def tokens_per_epoch(self) -> int:
        return self._train.tokens_per_epoch

    @property
    def steps_per_epoch(self) -> float:
        return self._train.steps_per_epoch

    @property
    def held_out_splits(self) -> Set[str]:
        """The splits among "valid" and "test" that have files."""
        return self._held_out.keys()

    def relative_length(self, tokens: int) -> float:
        """Returns the length of a step's rows relative to the usual length.

        The learning rate is multiplied by it (Merity et al., 2017, 5). `tokens` is the number of
        tokens of the step over all processes.
        """
        usual = self._train.usual_tokens
        return 1.0 if usual is None else tokens / usual

    def batches(self, step: int) -> list[TrainingBatch]:
        """Returns the micro-batches of a step."""
        return self._train.batches(step, self._rank, self._size)

    def held_out_batches(self, split: str) -> Iterator[TrainingBatch]:
        """Yields the batches of an evaluation."""
        batches = self._held_out[split].sweep(self._rank, self._size)
        return islice(batches, self._max_valid_batches if split == "valid" else None)

    def close(self) -> None:
        """Ends the threads that prefetch batches."""
        self._train.close()


def _share(rows: int, rank: int, world: int) -> slice:
    if rows < world:
        raise ConfigError(
            f"A batch of {rows} rows cannot be shared by {world} processes; raise train.batch_size "
            "(or data.tokens_per_batch), or use fewer."
        )
    return slice(rank * rows // world, (rank + 1) * rows // world)


def make_loader(
    settings: DataSettings,
    store: MemmapDataset,
    objective: Objective,
    *,
    context: int | None,
    seed: int,
    batch: int,
    accumulate: int = 1,
    ahead: int = 2,
) -> Loader:
    """Creates the loader of a dataset.

    Args:
        settings: The [data] table.
        store: The examples.
        objective: Collates examples, and gives the default batching.
        context: The model's context length: the default length of rows.
        seed: Seed of the order and of random choices.
        batch: Rows of a micro-batch over all processes.
        accumulate: Micro-batches per step.
        ahead: Number of steps to prepare in advance.
    """
    batching = settings.batching or objective.batching
    rows = make_rows(settings, store, objective, batching, context, seed, batch)
    order: Order
    if batching == "bucket":
        assert settings.tokens_per_batch is not None
        order = (
            Bucketed(store.lengths(), settings.tokens_per_batch, seed)
            if settings.max_batch_shapes is None
            else Even(
                store.lengths(),
                settings.tokens_per_batch,
                seed,
                settings.max_batch_shapes,
                {name: store.lengths_of(name) for name in objective.fields},
            )
        )
    elif batching == "variable-bptt":
        order = InTurn(rows.count, batch, seed)
    elif kinds := objective.kinds(store.lengths_of):
        order = Shared(kinds, batch, seed)
    else:
        order = Shuffled(rows.count, batch, seed)
    return Loader(rows, order, objective, seed=seed, accumulate=accumulate, ahead=ahead)


def make_rows(
    settings: DataSettings,
    store: MemmapDataset,
    objective: Objective,
    batching: str,
    context: int | None,
    seed: int,
    batch: int,
) -> RowSource:
    """Returns the rows of a batching such as "concatenate" or "pack"."""
    length, across = settings.sequence_length or context, settings.attend_across_documents
    if batching in ("pad", "bucket"):
        return SingleRows(store)
    if length is None:
        raise ConfigError(
            f'data.batching = "{batching}" needs a length of rows, and this model has no limit of '
            "its own; say data.sequence_length."
        )
    beyond = objective.beyond
    if batching == "pack":
        return PackedRows(
            store, length, seed, beyond=beyond, cut=objective.batching == "concatenate"
        )
    options: dict[str, Any] = {"beyond": beyond, "before": objective.before, "across": across}
    if batching == "variable-bptt":
        return VaryingRows(store, length, seed, batch=batch, most=context, **options)
    return StreamRows(store, length, seed, **options)
