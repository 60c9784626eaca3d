"""What all of them are. Records become examples, examples a batch, and
a batch, read by the net, the sums of which the loss is made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.errors import GlassformerError
from glassformer.model import Model

Record = Mapping[str, Any]
"""A line of a file, by the names of its columns; `where` says which line. A long text comes in
pieces: `begins` is False in all but its first (no start token there), `ends` in all but its last
(no end token); where they are absent, a record is whole."""
Example = dict[str, NDArray[Any]]  # one-dimensional arrays, as they are stored


@dataclass
class TrainingBatch:
    """`inputs` are what the net reads, `targets` what its answer is judged by. `counts` says of
    every part of the loss how many tokens (or texts) its sum is over; `tokens` how many are read.
    `aside` is what else an evaluation needs; `heard` what heads have said in one, which asks for
    the loss and for the answers.
    """

    inputs: dict[str, Tensor]
    targets: dict[str, Tensor]
    counts: dict[str, float]
    tokens: int
    aside: dict[str, Any] = field(default_factory=dict)
    heard: dict[tuple[str, int], Tensor] | None = None


class Objective(nn.Module, ABC):
    """A module, since some have weights of their own (a generator, a projection); those are
    trained and saved beside the net's.

    The loss is the sum over the parts of `weights[part] * sum / count`, where sum and count are
    over all micro-batches of all processes of a step. So neither changes what is learned.
    """

    fields: ClassVar[Mapping[str, type[np.generic]]]  # what is stored of an example
    weights: dict[str, float]  # by the part's name
    arrange: str = "single"  # how rows are made of examples, where data.arrange does not say
    before: int = 0  # so many tokens of the text before a row's own come along, as "before"
    beyond: int = 0  # a row has so many tokens more than the net reads: it is asked for the last
    few_shapes: bool = False  # rows are padded to one of a few lengths, which a GPU can record
    others: int = 0  # so many other rows, drawn at random, come along: their fields as "other.0.x"

    def foresee(self, records: Sequence[Record]) -> None:
        """Told which records are prepared next, to do at once what is faster for all of them."""

    @abstractmethod
    def prepare(self, record: Record) -> Iterable[Example]:
        """Token ids of a record; done once, before training."""

    def draws(self, example: Example) -> bool:
        """Whether `vary` has anything to do; or else the example is taken as it is stored."""
        return type(self).vary is not Objective.vary

    def vary(self, example: Example, rng: np.random.Generator) -> Example:
        """What is drawn anew each time an example is read: masks, noise, orders."""
        return example

    @abstractmethod
    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        """Examples side by side, padded."""

    def collate_to(self, examples: Sequence[Example], slots: Mapping[str, int]) -> TrainingBatch:
        """The same for batches of few shapes (data.shapes): every field is padded to so many slots,
        and inputs that may be left out, such as a mask, are always there."""
        raise GlassformerError(
            f"{type(self).__name__} has no batches of few shapes; leave data.shapes out."
        )

    def kinds(
        self, lengths: Callable[[str], NDArray[np.int64]]
    ) -> list[tuple[NDArray[np.int64], float]]:
        """Rows that are drawn in shares of their own, and these shares; none where all rows are
        alike. `lengths` says how long a field is in every row."""
        return []

    def apart(self, batch: TrainingBatch) -> list[TrainingBatch]:
        """Batches that say together what this one says, where some of it can be learned from by
        itself."""
        return [batch]

    def advance(self, progress: float) -> None:
        """Told before every step which share of training is over, for what ends before the rest."""

    def stage(self) -> Hashable:
        """What besides the batch decides what is computed, and may change with `advance`."""
        return None

    def companions(self) -> Mapping[str, Model]:
        """Models that learn along, and are saved beside the net under these names."""
        return {}

    @abstractmethod
    def forward(self, net: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        """The sum, not the mean, of every part of the loss that counts at this time."""
