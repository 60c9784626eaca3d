"""Several objectives on one shared body; each row of a step serves one of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.record import Record, invalid
from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.train.objectives.mixture_parts import part_names
from glassformer.train.objectives.objective import Objective, TrainingBatch
from glassformer.train.objectives.registry import make_objective, objective
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Example, RaggedColumn, Rows
from glassformer.train.objectives.sequence_level import SequenceLevelObjective
from glassformer.train.objectives.text_inputs import length_of

AT = "/"  # separates a part's name from a field or loss name


@objective("mixture")
class Mixture(SequenceLevelObjective):
    """A mixture of objectives: `[[objective]]` tables in a recipe.

    `parts` are tables like [objective], each with its `name` and options, a `weight` of its loss
    and a `rate` of its rows (both default to 1).

    A record is prepared for every part, or for the one that its column `objective` names. The part
    that a row serves depends only on the rates, the seed, the step and the row: rows that could
    serve several parts draw one, and rows that serve different parts are sampled by the rates of
    these, however many there are of each. The heads belong to the model, each by its name; the body
    is shared.

    Every micro-batch runs every part that one of its rows could serve. A part without rows of its
    own runs on a row of another part and counts nothing, so that all processes run the same passes,
    which DDP and FSDP rely on.
    """

    def __init__(
        self, model: Model, *, parts: tuple[Mapping[str, Any], ...], max_length: int | None = None
    ) -> None:
        super().__init__()
        if not parts:
            raise ConfigError("A mixture needs parts, each with the name of an objective.")
        made: dict[str, Objective] = {}
        rates: list[float] = []
        self.weights = {}
        keys = part_names(str(table.get("name", "")) for table in parts)
        for key, options in zip(keys, map(dict, parts), strict=True):
            name, weight = str(options.pop("name", "")), float(options.pop("weight", 1.0))
            rates.append(float(options.pop("rate", 1.0)))
            made[key] = make_objective(name, model, options, max_length)
            self.weights |= {f"{key}{AT}{p}": weight * w for p, w in made[key].weights.items()}
        if min(rates) < 0 or not sum(rates):
            raise ConfigError("The rates of a mixture must be at least 0, and not all of them 0.")
        self.parts: dict[str, Any] = nn.ModuleDict(made)  # type: ignore[assignment]
        self.learning: Mapping[str, Any] = dict(made)  # the same, perhaps compiled
        self.names = [*made]
        self.others = max(part.others for part in made.values())
        if any(part.before for part in made.values()):
            raise ConfigError(
                "The rows of a mixture have no memory of the previous row; leave memory_length out."
            )
        self.rates = np.array(rates) / sum(rates)
        self._shares: dict[tuple[bool, ...], NDArray[np.float64]] = {}
        self.length = length_of(model, max_length)

    @cached_property
    def fields(self) -> Mapping[str, type[np.generic]]:  # type: ignore[override]
        return {
            f"{name}{AT}{field}": kind
            for name in self.names
            for field, kind in self.parts[name].fields.items()
        }

    def lookahead_tokenize(self, records: Sequence[Record]) -> None:
        for name in self.names:
            own = [record for record in records if record.get("objective", name) == name]
            self.parts[name].lookahead_tokenize(own)

    def prepare(self, record: Record) -> Iterable[Example]:
        """Yields combined examples with one of every part; a part with fewer repeats them."""
        own = [name for name in self.names if record.get("objective", name) == name]
        if not own:
            raise invalid(
                record,
                f"the objective {record['objective']!r} is none of the mixture's: "
                f"{', '.join(self.names)}",
            )
        found = {name: list(self._prepared(self.parts[name], record)) for name in own}
        for number in range(max(map(len, found.values()))):
            example = {field: np.array([], dtype=kind) for field, kind in self.fields.items()}
            for name, examples in found.items():
                if examples:
                    one = examples[number % len(examples)]
                    example |= {f"{name}{AT}{field}": value for field, value in one.items()}
            yield example

    def _prepared(self, part: Objective, record: Record) -> Iterable[Example]:
        """Yields examples of a part; those of stream objectives are cut into separate rows."""
        for example in part.prepare(record):
            if part.batching != "concatenate":
                yield example
                continue
            size = self.length + part.beyond
            for start in range(0, max(1, len(example["tokens"]) - part.beyond), self.length):
                piece = {key: value[start : start + size] for key, value in example.items()}
                if len(piece["tokens"]) > part.beyond:
                    yield piece

    def set_row_lengths(
        self, lengths: Mapping[str, tuple[int, ...]], means: Mapping[str, float]
    ) -> None:
        own, average = _by_part(lengths), _by_part(means)
        for name in self.names:
            self.parts[name].set_row_lengths(own[name], average[name])

    def kinds(
        self, lengths: Callable[[str], NDArray[np.int64]]
    ) -> list[tuple[NDArray[np.int64], float]]:
        """Returns the groups of rows that serve different parts, with the rates of those parts."""
        there = np.stack(
            [
                np.max([lengths(f"{name}{AT}{field}") for field in self.parts[name].fields], 0) > 0
                for name in self.names
            ]
        )  # [part, row]
        sets, kind = np.unique(there, axis=1, return_inverse=True)  # [part, kind], [row]
        if sets.shape[1] == 1:
            return []
        shares = (self.rates[:, None] * sets / np.maximum(1, sets.sum(1, keepdims=True))).sum(0)
        return [(np.flatnonzero(kind.flatten() == i), float(s)) for i, s in enumerate(shares)]

    def vary(self, rows: Rows, draws: RowRandom) -> Rows:
        """Draws the part of each row, and the random choices of all parts that it could serve.

        They are all needed for the case that a part gets no row.
        """
        there = self._can_serve(rows)
        choices = draws.uniform("part")
        parts = np.array([self._ends(tuple(own)) for own in there.T.tolist()])  # [row, part]
        chosen = (choices[:, None] >= parts).sum(1)
        varied = {"part": RaggedColumn(chosen, np.ones_like(chosen))}
        by_part = _by_part(rows.columns)
        for index, name in enumerate(self.names):
            mine = np.flatnonzero(there[index])
            found = Rows(by_part[name]).take(mine)
            found = self.parts[name].vary(found, draws.take(mine).child(name))
            for field, column in found.columns.items():
                varied[f"{name}{AT}{field}"] = _spread(column, mine, len(chosen))
        return Rows(varied)

    def augment(self, rows: Rows, draws: RowRandom) -> Rows:
        there, by_part = self._can_serve(rows), _by_part(rows.columns)
        changed: dict[str, RaggedColumn] = {}
        for index, name in enumerate(self.names):
            if type(self.parts[name]).augment is Objective.augment:
                continue
            mine = np.flatnonzero(there[index])
            found = Rows(by_part[name]).take(mine)
            found = self.parts[name].augment(found, draws.take(mine).child(name))
            for field, column in found.columns.items():
                changed[f"{name}{AT}{field}"] = _spread(column, mine, len(rows))
        return rows | changed

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        rows = Rows.of(examples)
        there, by_part = self._can_serve(rows), _by_part(rows.columns)
        turns = rows.columns["part"].values if "part" in rows.columns else there.argmax(0)
        combined = TrainingBatch({}, {}, {}, 0)
        for index, name in enumerate(self.names):
            own = np.flatnonzero(turns == index)
            stands_in = np.flatnonzero(there[index])[:1]
            if not len(own) and not len(stands_in):
                continue
            given = Rows(by_part[name]).take(own if len(own) else stands_in)
            batch: TrainingBatch = self.parts[name].collate(given)
            counts = batch.counts if len(own) else dict.fromkeys(batch.counts, 0.0)
            combined.inputs |= {f"{name}{AT}{key}": value for key, value in batch.inputs.items()}
            combined.targets |= {f"{name}{AT}{key}": value for key, value in batch.targets.items()}
            combined.counts |= {f"{name}{AT}{key}": value for key, value in counts.items()}
            combined.tokens += batch.tokens if len(own) else 0
            combined.extra[name] = batch.extra
        return combined

    def split_parts(self, batch: TrainingBatch) -> list[TrainingBatch]:
        there = _by_part(batch.inputs)
        return [_of_part(batch, name) for name in self.names if name in there]

    def advance(self, progress: float) -> None:
        for part in self.parts.values():
            part.advance(progress)

    def stage(self) -> Hashable:
        return tuple(part.stage() for part in self.parts.values())

    def companions(self) -> Mapping[str, Model]:
        return {
            f"{name}-{key}": companion
            for name in self.names
            for key, companion in self.parts[name].companions().items()
        }

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        sums: dict[str, Tensor] = {}
        parts = self.learning if self.training else self.parts
        for name, own in self._split(batch):
            for key, value in parts[name](model, own).items():
                counts = own.counts.get(key, 0.0) > 0
                sums[f"{name}{AT}{key}"] = value if counts else value * 0.0
        return sums

    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[tuple[Any, Any]]:
        return [
            (name, answer)
            for name, own in self._split(batch)
            if isinstance(self.parts[name], SequenceLevelObjective) and any(own.counts.values())
            for answer in self.parts[name].answers(model, own)
        ]

    def score(self, answers: Sequence[tuple[Any, Any]]) -> dict[str, float]:
        scores: dict[str, float] = {}
        for name in self.names:
            own = [answer for part, answer in answers if part == name]
            if own:
                found = self.parts[name].score(own)
                scores |= {f"{name}{AT}{key}": value for key, value in found.items()}
        return scores

    def _split(self, batch: TrainingBatch) -> Iterable[tuple[str, TrainingBatch]]:
        inputs, targets = _by_part(batch.inputs), _by_part(batch.targets)
        counts = _by_part(batch.counts)
        for name in self.names:
            if name in inputs:
                own = inputs[name], targets.get(name, {}), counts.get(name, {})
                extra = batch.extra.get(name, {})
                yield name, TrainingBatch(*own, batch.tokens, extra, batch.head_outputs)

    def _ends(self, there: tuple[bool, ...]) -> NDArray[np.float64]:
        """Returns the cumulative shares of the parts, for a row that could serve these."""
        if there not in self._shares:
            served = np.array(there)
            rates = self.rates * served
            if not rates.sum():  # all of these parts have a rate of 0
                rates = served.astype(float)
            ends = (rates / rates.sum()).cumsum()
            self._shares[there] = ends / ends[-1]
        return self._shares[there]

    def _can_serve(self, rows: Rows) -> NDArray[np.bool_]:
        """Returns whether a row could serve a part, [part, row]."""
        found = np.zeros((len(self.names), len(rows)), dtype=bool)
        for key, column in rows.columns.items():
            owner, field = _split_key(key)
            if owner in self.parts and not field.startswith("other."):
                found[self.names.index(owner)] |= column.lengths > 0
        return found


def _spread(column: RaggedColumn, rows: NDArray[np.int64], count: int) -> RaggedColumn:
    """Returns a column of `count` rows, of which only these have values."""
    lengths = np.zeros(count, np.int64)
    lengths[rows] = column.lengths
    return RaggedColumn(column.values, lengths)


def _of_part(batch: TrainingBatch, name: str) -> TrainingBatch:
    """Returns the entries of one part, under their names in the whole batch."""

    def mine(values: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in values.items() if _split_key(key)[0] == name}

    return TrainingBatch(mine(batch.inputs), mine(batch.targets), mine(batch.counts), batch.tokens)


def _by_part(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Groups entries by part, under their names there."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        owner, field = _split_key(key)
        found.setdefault(owner, {})[field] = value
    return found


@cache  # there are few keys, and each is looked up many times in a step
def _split_key(key: str) -> tuple[str, str]:
    """Splits "part/field" into part and field; also "other.0.part/field" of another row."""
    owner, _, field = key.rpartition(AT)
    *other, owner = owner.rsplit(".", 1) if owner.startswith("other.") else [owner]
    return owner, ".".join([*other, field])
