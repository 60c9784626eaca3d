"""The base class of objectives: records become examples, examples batches, and batches losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.record import Record
from glassformer.errors import UnsupportedError
from glassformer.model import Model
from glassformer.spec import HeadSpec
from glassformer.train.objectives.row_lengths import even
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Example, Rows, column_of
from glassformer.train.objectives.tally import Tally
from glassformer.train.objectives.usage_example import UsageExample


@dataclass
class TrainingBatch:
    """A batch of one objective.

    Attributes:
        inputs: Inputs of the network.
        targets: Targets of the loss.
        counts: For each part of the loss, the number of tokens (or texts) that its sum is over.
        tokens: Number of tokens that are read.
        extra: Other data that an evaluation needs.
        head_outputs: Cached outputs of heads in an evaluation, which needs them for the loss and
            for the predictions; None in training.
    """

    inputs: dict[str, Tensor]
    targets: dict[str, Tensor]
    counts: dict[str, float]
    tokens: int
    extra: dict[str, Any] = field(default_factory=dict)
    head_outputs: dict[tuple[str, int], Tensor] | None = None


class Objective(nn.Module, ABC):
    """Base class of training objectives.

    It is a module, because some objectives have weights of their own (a generator, a projection),
    which are trained and saved with those of the network.

    The loss is the sum over the parts of `weights[part] * sum / count`, where sum and count are
    over all micro-batches of all processes of a step. So the numbers of micro-batches and processes
    do not affect what is learned.
    """

    columns: ClassVar[tuple[str, ...]] = ()  # names of the columns that it reads
    fields: ClassVar[Mapping[str, type[np.generic]]]  # stored arrays of an example and dtypes
    pipeline_tag: ClassVar[str | None] = None  # the hub's name of the task, for the model card
    usage: ClassVar[UsageExample | None] = None  # how to use a trained model, for the model card
    weights: dict[str, float]  # by the name of the loss part
    batching: str = "pad"  # how examples become rows, unless data.batching is given
    before: int = 0  # number of tokens before a row that are added to it as "before"
    beyond: int = 0  # number of tokens that a row has beyond those the network reads, as targets
    few_shapes: bool = False  # whether batches should have few shapes, for CUDA graphs
    row_lengths: Mapping[str, tuple[int, ...]] = {}  # what rows are then padded to, by field
    mean_lengths: Mapping[str, float] = {}  # what hardly any batch exceeds on average, by field
    records_per_block: int | None = None  # that are prepared at once; None: the usual number
    others: int = 0  # number of random other rows that are added, with their fields as "other.0.x"

    def __init__(self) -> None:
        super().__init__()
        self.tally = Tally()  # what `prepare` counts

    @classmethod
    def new_heads(cls, options: Mapping[str, Any]) -> tuple[HeadSpec, ...]:
        """Returns heads that the objective needs with these options and that a model may lack.

        They are added to the model before the objective is made.
        """
        return ()

    def lookahead_tokenize(self, records: Sequence[Record]) -> None:
        """Announces the records that are prepared next, so that they can be tokenized together."""

    @abstractmethod
    def prepare(self, record: Record) -> Iterable[Example]:
        """Converts a record to examples of token ids; called once, before training.

        Raises an error if the record cannot be used.
        """

    def check(self, tally: Tally) -> None:
        """Raises an error if nothing can be learned from training data with these counts."""

    def set_row_lengths(
        self, lengths: Mapping[str, tuple[int, ...]], means: Mapping[str, float]
    ) -> None:
        """Sets `row_lengths` and `mean_lengths`; objectives that contain others pass them on."""
        self.row_lengths, self.mean_lengths = lengths, means

    def padded_length(self, longest: int, most: int | None = None, field: str = "tokens") -> int:
        """Returns the row length of a batch whose longest row has so many values in a field."""
        if not self.few_shapes:
            return longest
        fitting = (length for length in self.row_lengths.get(field, ()) if length >= longest)
        return next(fitting, even(longest, most))

    def padded_lengths(
        self, examples: Sequence[Example], limits: Mapping[str, int]
    ) -> dict[str, int]:
        """Returns the row lengths of several fields, all of which are usual, or none."""
        longest = {name: int(column_of(examples, name).lengths.max()) for name in limits}
        sizes = {name: self.row_lengths.get(name, ()) for name in limits}
        rare = any(own and longest[name] > own[0] for name, own in sizes.items())
        found = {}
        for name, most in limits.items():
            least = sizes[name][-1] if rare and sizes[name] else longest[name]
            found[name] = self.padded_length(max(least, longest[name]), most, name)
        return found

    def vary(self, rows: Rows, draws: RowRandom) -> Rows:
        """Makes the random choices for rows (masks, noise, orders), each time they are read.

        What is chosen for a row must depend on that row and its draws alone, because the processes
        of a run share the rows of a batch.
        """
        return rows

    def augment(self, rows: Rows, draws: RowRandom) -> Rows:
        """Changes training rows at random (noise, speed); an evaluation reads them as they are.

        The same holds as for `vary`, which comes before.
        """
        return rows

    @property
    def makes_choices(self) -> bool:
        """Whether `vary` or `augment` changes rows."""
        kind = type(self)
        return kind.vary is not Objective.vary or kind.augment is not Objective.augment

    @abstractmethod
    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        """Combines examples, in training `Rows`, into a padded batch."""

    def collate_to(self, examples: Sequence[Example], slots: Mapping[str, int]) -> TrainingBatch:
        """Like `collate`, for batches with few shapes (data.max_batch_shapes).

        Each field is padded to the given number of slots, and optional inputs such as a mask are
        always present.
        """
        raise UnsupportedError(
            f"{type(self).__name__} has no batches of few shapes; leave data.max_batch_shapes out.",
            field="data.max_batch_shapes",
        )

    def kinds(
        self, lengths: Callable[[str], NDArray[np.int64]]
    ) -> list[tuple[NDArray[np.int64], float]]:
        """Returns groups of rows that are sampled in fixed shares, with these shares.

        The list is empty if all rows are alike.

        Args:
            lengths: Returns the length of a field in every row.
        """
        return []

    def split_parts(self, batch: TrainingBatch) -> list[TrainingBatch]:
        """Splits a batch into batches that can be trained on separately with the same result."""
        return [batch]

    def advance(self, progress: float) -> None:
        """Called before every step with the fraction of training that is done."""

    def stage(self) -> Hashable:
        """Returns a key of what is computed, apart from the batch; `advance` may change it."""
        return None

    def companions(self) -> Mapping[str, Model]:
        """Returns models that are trained along with the network and saved next to it, by name."""
        return {}

    @abstractmethod
    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        """Returns the sum, not the mean, of every part of the loss that currently counts."""
