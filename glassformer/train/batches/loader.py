"""The data loader: the batches of a step, and those of an evaluation.

Rows, their order and their random choices depend only on the seed and the step; threads and
processes that work ahead only save time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import islice
from typing import Any

from glassformer.data.data_config import DataSettings
from glassformer.errors import ConfigError, DataError
from glassformer.train.batches.batch_feed import BatchFeed
from glassformer.train.batches.batch_maker import BatchMaker
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
from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.row_lengths import mean_lengths, row_lengths


class Loader:
    """Batches by step.

    A step has `maker.accumulate` batches over all processes. A thread prepares steps in advance, or
    with `workers` so many processes do; which process makes a batch does not affect it.
    """

    def __init__(self, maker: BatchMaker, *, ahead: int = 2, workers: int = 0) -> None:
        self.maker = maker
        self.feed = BatchFeed(maker, ahead, workers) if ahead else None

    @property
    def steps_per_epoch(self) -> float:
        return self.maker.order.epoch / self.maker.accumulate

    @property
    def tokens_per_epoch(self) -> int:
        return self.maker.rows.tokens

    @property
    def usual_tokens(self) -> int | None:
        """Usual number of tokens of a step, if row lengths are drawn at random; otherwise None."""
        rows = self.maker.rows
        if not isinstance(rows, VaryingRows):
            return None
        return rows.length * rows.batch * self.maker.accumulate

    @property
    def has_few_shapes(self) -> bool:
        """Whether batches for a GPU have about as many rows and lengths each time."""
        order = self.maker.order
        varying = isinstance(order, Bucketed) and not isinstance(order, Even)
        return not varying and not isinstance(self.maker.rows, VaryingRows)

    def epochs(self, steps: int) -> float:
        """Returns the number of epochs in so many steps."""
        return steps / self.steps_per_epoch

    def batches(self, step: int, rank: int = 0, world: int = 1) -> list[TrainingBatch]:
        """Returns the micro-batches of a step: of each, the share of process `rank` of `world`."""
        request = (step, rank, world)
        return self.maker.batches(request) if self.feed is None else self.feed.batches(request)

    def sweep(self, rank: int = 0, world: int = 1) -> Iterator[TrainingBatch]:
        """Yields everything once, in a fixed order and with fixed random choices.

        Every process gets the same number of batches.
        """
        rows = self.maker.rows.all
        if rows < world:
            raise DataError(
                f"{world} processes cannot share {rows} rows of data; add some, or use fewer "
                "processes."
            )
        yield from self.maker.sweep(rank, world)

    def close(self) -> None:
        """Stops the work ahead; the loader can still be used afterward."""
        if self.feed is not None:
            self.feed.close()


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
    def has_few_shapes(self) -> bool:
        """Whether the batches of a GPU have few different shapes."""
        return self._train.has_few_shapes

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
    workers: int = 0,
    for_gpu: bool = False,
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
        workers: Number of processes that prepare them; 0 for a thread of this process.
        for_gpu: Whether the batches are for a GPU.

    Returns:
        The loader.
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
    if for_gpu and batching == "pad":
        lengths = {name: store.lengths_of(name) for name in objective.fields}
        objective.set_row_lengths(row_lengths(lengths, batch), mean_lengths(lengths, batch))
    maker = BatchMaker(rows, order, objective, seed, accumulate, for_gpu)
    return Loader(maker, ahead=ahead, workers=workers)


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
            "its own; set data.sequence_length."
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
