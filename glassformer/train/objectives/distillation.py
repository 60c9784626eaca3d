"""Knowledge distillation: a model learns a task from another model's predictions.

It may also learn from hidden states; the student is usually smaller than the teacher.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core import ModelOutput, Transformer
from glassformer.core.hooks import Tap, chain
from glassformer.core.input_rules import text_ids
from glassformer.data.record import Record
from glassformer.errors import ConfigError
from glassformer.loading import load
from glassformer.model import Model
from glassformer.train.fused_cross_entropy import by_rows, exact, head_of, output
from glassformer.train.losses import soft_targets
from glassformer.train.objectives.objective import TrainingBatch
from glassformer.train.objectives.registry import make_objective, objective
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Example, Rows
from glassformer.train.objectives.sequence_level import Answer, SequenceLevelObjective
from glassformer.train.objectives.text_inputs import IGNORED


@objective("distillation")
class Distillation(SequenceLevelObjective):
    """Distillation around another objective: `task` is its name, `task_options` are its options.

    The data and metrics of the task are used, and wherever it has a target, the teacher's
    prediction is a second target.

    The loss is the sum of the task's loss (times `hard_weight`; 0 uses the teacher alone), the
    divergence of softened predictions (times `soft_weight`), the squared distance of hidden states
    (times `hidden_weight`) and their cosine distance (times `cosine_weight`). Hidden states are the
    last ones or, with `match_layers` "all", those of every layer, compared to the teacher's layer
    at the same relative depth; if the widths differ, a learned matrix projects one to the other.
    With `hidden_until`, the weights of the hidden states fall to 0 over that fraction of training:
    they guide the beginning, and the predictions count in the end.

    The teacher is a folder that `gf.load` reads. It is neither trained nor saved with the run.
    """

    def __init__(
        self,
        model: Model,
        *,
        teacher: str,
        task: str,
        task_options: Mapping[str, Any] | None = None,
        temperature: float = 2.0,
        loss: Literal["kl", "cross-entropy"] = "kl",
        hard_weight: float = 0.5,
        soft_weight: float = 0.5,
        hidden_weight: float = 0.0,
        cosine_weight: float = 0.0,
        match_layers: Literal["last", "all"] = "last",
        hidden_until: float | None = None,
        max_length: int | None = None,
    ) -> None:
        super().__init__()
        if hidden_until is not None and not 0 < hidden_until <= 1:
            raise ConfigError(f"objective.hidden_until is a share of training, not {hidden_until}.")
        if loss not in ("kl", "cross-entropy"):
            raise ConfigError(f'objective.loss is "kl" or "cross-entropy", not {loss!r}.')
        if match_layers not in ("last", "all"):
            raise ConfigError(f'objective.match_layers is "last" or "all", not {match_layers!r}.')
        self.task = make_objective(task, model, task_options or {}, max_length)
        if self.task.before:
            raise ConfigError(
                "A teacher has no memory of the previous row; leave memory_length out."
            )
        self.batching, self.beyond = self.task.batching, self.task.beyond
        self.others = self.task.others
        self.head = next(iter(self.task.weights))  # loss parts are named by their heads
        self.temperature, self.loss, self.hard = temperature, loss, hard_weight
        loaded = load(teacher).requires_grad_(False)
        _check(model, loaded, self.head)
        self._teacher = (loaded,)  # in a tuple, so that it is no submodule: not trained, not saved
        self.writes = model.spec.decoder is not None
        self.states = (
            States(model, loaded, match_layers) if hidden_weight or cosine_weight else None
        )
        own = {"soft": soft_weight, "hidden": hidden_weight, "cosine": cosine_weight}
        weights = {
            part: hard_weight * weight for part, weight in self.task.weights.items() if hard_weight
        }
        self._weights = weights | {part: weight for part, weight in own.items() if weight}
        self.until, self.share = hidden_until, 1.0

    @property
    def fields(self) -> Mapping[str, type[np.generic]]:  # type: ignore[override]
        return self.task.fields

    @property
    def weights(self) -> dict[str, float]:  # type: ignore[override]
        """Weights of the loss parts.

        A forward pass must not read them, because they change with every step and would be compiled
        as constants.
        """
        states = ("hidden", "cosine")
        return {p: w * self.share if p in states else w for p, w in self._weights.items()}

    def prepare(self, record: Record) -> Iterable[Example]:
        return self.task.prepare(record)

    def lookahead_tokenize(self, records: Sequence[Record]) -> None:
        self.task.lookahead_tokenize(records)

    def set_row_lengths(
        self, lengths: Mapping[str, tuple[int, ...]], means: Mapping[str, float]
    ) -> None:
        self.task.set_row_lengths(lengths, means)

    @property
    def makes_choices(self) -> bool:
        return self.task.makes_choices

    def vary(self, rows: Rows, draws: RowRandom) -> Rows:
        return self.task.vary(rows, draws)

    def augment(self, rows: Rows, draws: RowRandom) -> Rows:
        return self.task.augment(rows, draws)

    def advance(self, progress: float) -> None:
        self.task.advance(progress)
        self.share = 1.0 if self.until is None else max(0.0, 1 - progress / self.until)

    def stage(self) -> Hashable:
        return self.task.stage()

    def companions(self) -> Mapping[str, Model]:
        return self.task.companions()

    def collate(self, examples: Sequence[Example]) -> TrainingBatch:
        batch = self.task.collate(examples)
        tokens = float(_real(batch, self.writes).sum())
        own = {"soft": batch.counts[self.head], "hidden": tokens, "cosine": tokens}
        counts = batch.counts if self.hard else {}
        return TrainingBatch(
            batch.inputs,
            batch.targets,
            {**counts, **{part: own[part] for part in own if part in self._weights}},
            batch.tokens,
            batch.extra,
        )

    def forward(self, model: nn.Module, batch: TrainingBatch) -> dict[str, Tensor]:
        """Runs the student once, for its task, and the teacher on the same inputs."""
        student = TeacherHooks(model, self.head, self.states)
        hard = self.task(student, batch)
        parts: dict[str, Tensor] = dict(hard) if self.hard else {}
        teacher = TeacherHooks(self._teacher[0], self.head, self.states)
        with torch.no_grad():
            teacher(**_readable(teacher.model, student.inputs))
        if "soft" in self._weights:
            parts["soft"] = self._soft(student, teacher, batch)
        if self.states is not None:
            found = self.states(
                student.hidden_states, teacher.hidden_states, _real(batch, self.writes)
            )
            parts |= {part: found[part] for part in found if part in self._weights}
        return parts

    def _soft(self, student: TeacherHooks, teacher: TeacherHooks, batch: TrainingBatch) -> Tensor:
        def distance(found: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
            rows = soft_targets(found, wanted, self.temperature, self.loss)
            return (rows * weights).sum()

        mine, taught = (
            student.result.head_outputs[self.head],
            teacher.result.head_outputs[self.head],
        )
        if not student.inputs.get("return_features"):
            assert isinstance(self.task, SequenceLevelObjective)
            rows, weights = self.task.class_scores(exact(mine), batch)
            return distance(rows, self.task.class_scores(exact(taught), batch)[0], weights)
        heads = head_of(student.model, self.head), head_of(teacher.model, self.head)
        at, weights = _target_rows(batch, mine)
        mine, taught = (states.flatten(0, -2) for states in (mine, taught))
        if at is not None:
            mine, taught = mine[at], taught[at]

        def judge_states(mine: Tensor, taught: Tensor, weights: Tensor) -> Tensor:
            return distance(output(heads[0], mine), output(heads[1], taught), weights)

        return by_rows(judge_states, heads[0].spec.num_outputs or 1, mine, taught, weights)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Moves the teacher to another device, too, before a pass is compiled."""
        self._teacher[0]._apply(fn, recurse)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def answers(self, model: nn.Module, batch: TrainingBatch) -> list[Answer]:
        return (
            self.task.answers(model, batch) if isinstance(self.task, SequenceLevelObjective) else []
        )

    def score(self, answers: Sequence[Answer]) -> dict[str, float]:
        return self.task.score(answers) if isinstance(self.task, SequenceLevelObjective) else {}


class TeacherHooks:
    """A network, as an objective calls it, that records its inputs and outputs."""

    def __init__(self, model: Any, head: str, states: States | None) -> None:
        self.model = model
        self.head = head
        self.every = states is not None and states.every
        self.inputs: dict[str, Any] = {}
        self.result: ModelOutput
        self.hidden_states: list[Tensor] = []

    def __call__(self, *, tap: Tap | None = None, **inputs: Any) -> ModelOutput:
        """Calls the network; a given tap belongs to the task and is not passed to the teacher."""
        kept = TeacherLayers("encoder." if self.model.spec.decoder is None else "decoder.")

        both = chain(tap, kept) if self.every else tap
        result: ModelOutput = self.model(**inputs, tap=both)
        if self.head in result.head_outputs:
            self.inputs, self.result = inputs, result
            self.hidden_states = kept.hidden_states if self.every else [result.last_hidden_state]
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


class TeacherLayers:
    """A tap that records the outputs of a stack's layers in order.

    `ActivationCapture` with patterns does the same, but a compiler cannot trace it.
    """

    def __init__(self, stack: str) -> None:
        self.stack = stack
        self.hidden_states: list[Tensor] = []

    def wants(self, name: str) -> bool:
        return name.startswith(self.stack) and name.endswith(".resid_post")

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if self.wants(name):
            self.hidden_states.append(value)
        return value


class States(nn.Module):
    """Compares hidden states of [batch, position, width] of a student's and a teacher's layers."""

    def __init__(self, student: Transformer, teacher: Transformer, layers: str) -> None:
        super().__init__()
        self.every = layers == "all"
        mine, taught = student.spec.last_stack, teacher.spec.last_stack
        count = len(mine.order) if self.every else 1
        deepest = len(taught.order)
        self.matched_layers = (
            [(i + 1) * deepest // count - 1 for i in range(count)] if self.every else [0]
        )
        widths = [
            (mine.widths[i + 1], taught.widths[other + 1])
            if self.every
            else (mine.out_width, taught.out_width)
            for i, other in enumerate(self.matched_layers)
        ]
        self.projections = nn.ModuleList(_bridge(*pair, i) for i, pair in enumerate(widths))

    def forward(
        self, student: Sequence[Tensor], teacher: Sequence[Tensor], real: Tensor
    ) -> dict[str, Tensor]:
        """Returns squared distance and 1 - cosine, summed over real tokens.

        Both are means over layers.
        """
        squares, angles = [], []
        for mine, other, project in zip(
            student, self.matched_layers, self.projections, strict=True
        ):
            found, wanted = exact(project(mine)), exact(teacher[other])
            squares.append((found - wanted).square().mean(-1))
            angles.append(1 - F.cosine_similarity(found, wanted, dim=-1))
        return {
            "hidden": (torch.stack(squares).mean(0) * real).sum(),
            "cosine": (torch.stack(angles).mean(0) * real).sum(),
        }


def _bridge(width: int, other: int, number: int) -> nn.Module:
    if width == other:
        return nn.Identity()
    matrix = nn.Linear(width, other, bias=False)
    draws = torch.Generator().manual_seed(number)
    nn.init.normal_(matrix.weight, std=width**-0.5, generator=draws)
    return matrix


def _real(batch: TrainingBatch, writes: bool) -> Tensor:
    """Returns a mask of the tokens that count, [batch, position].

    These are all tokens that are read, or, if padding is known only from the targets, as in a
    decoder, those with a target.
    """
    tokens = text_ids(batch.inputs)
    mask = "decoder_attention_mask" if "decoder_input_ids" in batch.inputs else "attention_mask"
    if mask in batch.inputs:
        return batch.inputs[mask].bool()
    if writes and "at" in batch.targets:
        counted = torch.zeros(tokens.numel(), device=tokens.device)
        counted.index_add_(0, batch.targets["at"], batch.targets["tokens"].ne(IGNORED).float())
        return counted.view(tokens.shape) > 0
    same_shape = [t for key, t in batch.targets.items() if t.shape == tokens.shape]
    return same_shape[0].ne(IGNORED) if same_shape else torch.ones_like(tokens, dtype=torch.bool)


def _target_rows(batch: TrainingBatch, states: Tensor) -> tuple[Tensor | None, Tensor]:
    """Returns the indices of hidden states with a target, or None for all, and their weights."""
    if "at" in batch.targets:
        return batch.targets["at"], batch.targets["tokens"].ne(IGNORED).to(states.dtype)
    same_shape = [t for t in batch.targets.values() if t.shape == states.shape[:-1]]
    return None, same_shape[0].ne(IGNORED).flatten().to(states.dtype)


def _readable(teacher: Transformer, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Removes segments from the inputs if the teacher has none (RoBERTa has one)."""
    stack = teacher.spec.last_stack
    knows = stack.embed.segments > 1 or stack.scores_segments
    return {key: value for key, value in inputs.items() if key != "token_type_ids" or knows}


def _check(model: Model, teacher: Transformer, head: str) -> None:
    sizes = [
        next((one.num_outputs for one in each.spec.heads if one.name == head), None)
        for each in (model, teacher)
    ]
    if sizes[0] != sizes[1]:
        raise ConfigError(
            f"The teacher has {sizes[1] or 'no'} outputs of the head {head!r} and the student "
            f"{sizes[0] or 'none'}; a student needs a teacher of the same vocabulary or labels."
        )
    words = [each.spec.last_stack.embed.vocabulary for each in (model, teacher)]
    if words[0] > words[1]:
        raise ConfigError(
            f"The teacher reads {words[1]} different tokens and the student {words[0]}; both need "
            "the same tokenizer."
        )
