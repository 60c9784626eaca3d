"""Predictions of all head types as rows of logits over named outcomes, and the most probable ones.

| what         | one row of logits for each         | outcomes                       |
|--------------|------------------------------------|--------------------------------|
| next, masked | position (next or masked token)    | tokens of the vocabulary       |
| tag          | position                           | labels                         |
| classify     | text                               | labels, or regression values   |
| span         | answer boundary (start or end)     | positions of the text          |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.core.heads import pooling_positions
from glassformer.core.input_rules import text_ids
from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.inside.capture.model_inputs import token_text
from glassformer.inside.capture.named_tensor import check_index
from glassformer.inside.displayable import Displayable
from glassformer.spec import HeadSpec, head_among
from glassformer.tasks.classify import REGRESSION, has_several, problem_type
from glassformer.tasks.heads import kind_of
from glassformer.tasks.model_protocol import TaskModel
from glassformer.tasks.task_settings import labels_of

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View

ENDS = ("start", "end")  # boundaries of an answer
AXES = {"classify": ("text", "label"), "tag": ("position", "label"), "span": ("end", "position")}
VOCABULARY = ("position", "token")
PREDICT = ("lm", "classify", "tag", "span")  # kinds of heads that predict something for one text


@dataclass(frozen=True)
class Predicts:
    """What a model predicts with one of its heads.

    Attributes:
        what: The kind of prediction, as in the table above.
        head: The head.
        labels: The names of the outcomes if these are labels.
        several: Whether each label is predicted independently.
        number: Whether the logit itself is the prediction (regression).
    """

    what: str
    head: HeadSpec
    labels: tuple[str, ...] = ()
    several: bool = False
    number: bool = False

    @property
    def tokens(self) -> bool:
        """Whether the outcomes are tokens of the vocabulary."""
        return self.what in ("next", "masked")

    @property
    def lens(self) -> bool:
        """Whether the head can be applied to a layer's residual stream at a single position."""
        return self.tokens or (self.what == "tag" and len(self.labels) > 1)


def predicting_heads(model: TaskModel) -> list[HeadSpec]:
    """Returns the heads for the vocabulary, labels or answer spans."""
    return [head for head in _heads(model) if kind_of(head, model.spec) in PREDICT]


def _heads(model: TaskModel) -> list[HeadSpec]:
    return [head for head in model.spec.heads if not (head.auxiliary or head.pixel_shuffle)]


def predicts(model: TaskModel, name: str | None = None) -> Predicts:
    """Returns what the named head predicts.

    By default this is the first head that predicts something for one text.
    """
    heads = predicting_heads(model)
    if not heads:
        raise UnsupportedError(_why_nothing(model))
    head = head_among(heads, name, " that predicts something of one text")
    kind = kind_of(head, model.spec)
    if kind == "lm":
        return Predicts("masked" if model.spec.decoder is None else "next", head)
    if kind == "span":
        return Predicts(kind, head)
    number = kind == "classify" and problem_type(model, head) == REGRESSION
    several = head.num_outputs == 1 or number
    several = several or (kind == "classify" and has_several(model, head))
    return Predicts(kind, head, output_names(model, head), several, number)


def _why_nothing(model: TaskModel) -> str:
    kinds = dict.fromkeys(kind_of(head, model.spec) for head in _heads(model))
    if "choose" in kinds:
        return (
            f"{model.architecture} chooses among several texts; of one it gives a score alone, "
            "view.logits, which view.contributions() takes apart."
        )
    has = ", ".join(kinds) or "no head at all"
    return (
        f"This model has no head for the vocabulary, labels or answers (it has {has}), so it "
        "predicts nothing of a text."
    )


def output_names(model: TaskModel, head: HeadSpec) -> tuple[str, ...]:
    """Returns the names of a head's outputs that are not tokens; unnamed ones are numbered."""
    if kind_of(head, model.spec) == "span":
        return ENDS[: head.num_outputs]
    try:
        return tuple(labels_of(model, head))
    except GlassformerError:
        count = head.num_outputs or 0
        return (head.name,) if count == 1 else tuple(map(str, range(count)))


class Predicted:
    """The predictions of a view by the named head, by default that of the view."""

    def __init__(self, view: View, head: str | None = None) -> None:
        self.view, self.by = view, predicts(view.model, head or view.head)
        self.what, self.head = self.by.what, self.by.head

    @property
    def axes(self) -> tuple[str, str]:
        return AXES.get(self.what, VOCABULARY)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows, and the number of outcomes per row."""
        size, outputs = len(self.view.tokens), self.head.num_outputs or 0
        rows = {"classify": (1, outputs), "span": (outputs, size)}
        return rows.get(self.what, (size, outputs))

    def row(self, position: int) -> int:
        """Returns the row of a position; always 0 for predictions of the whole text."""
        rows = self.shape[0]
        if self.what == "classify":
            return 0
        check_index(position, rows, "start or end" if self.what == "span" else "position")
        return position % rows

    def logits(self, rows: Sequence[int] | None = None) -> Tensor:
        """Returns the logits, [row, outcome], of all or some rows."""
        found = self.view.output.head_outputs[self.head.name][0]
        if self.head.scalar:
            found = found.unsqueeze(-1)
        if self.what == "classify":
            found = found[None]
        elif self.what == "span":
            found = found.mT
        return found if rows is None else found[list(rows)]

    def best(self, row: int) -> int:
        return int(self.logits([row]).argmax(-1))

    def text(self, outcome: int) -> str:
        if self.by.tokens:
            return self.view.token_text(outcome)
        if self.what == "span":
            return self.view.tokens[outcome].text
        return self.by.labels[outcome]

    def actual(self, row: int) -> int | None:
        """Returns the true outcome of a row if the text contains it, else None.

        For a decoder this is the next token, for an encoder the token at the position unless it is
        a mask. A text does not contain the correct labels.
        """
        ids = [token.id for token in self.view.tokens]
        if self.what == "next":
            return ids[row + 1] if row + 1 < len(ids) else None
        hidden = self.what != "masked" or ids[row] == mask_token(self.view)
        return None if hidden else ids[row]

    def logit_place(self, row: int, outcome: int | None) -> tuple[int | None, int]:
        """Returns the position and the head's output index that hold the logit of an outcome.

        An `outcome` of None is the most probable one. The position is None for predictions of the
        whole text.
        """
        chosen = self.best(row) if outcome is None else outcome
        check_index(chosen, self.shape[1], "outcome")
        if self.what == "span":
            return chosen, row
        return (None if self.what == "classify" else row), chosen

    def read_at(self, row: int, outcome: int | None = None) -> list[int]:
        """Returns the positions whose last hidden states the head reads for an outcome."""
        position, _ = self.logit_place(row, outcome)
        if position is not None:
            return [position]
        where = self.where()
        one = where is not None and where.dtype == torch.long
        return where.tolist() if where is not None and one else [*range(len(self.view.tokens))]

    def where(self) -> Tensor | None:
        """Returns the positions that the head reads; see `core.heads.pooling_positions`."""
        hidden, text = self.view.output.last_hidden_state, text_ids(self.view.model_inputs.inputs)
        return pooling_positions(self.head, hidden, text, None, self.view.model.spec.tokens)

    def alternative_log_probs(self, logits: Tensor) -> Tensor:
        """Returns the log-probabilities of all alternatives in a row.

        The shape is [row, outcome], or [row, outcome, true or false] for independent labels.
        """
        logits = logits.float()
        if self.by.several:
            logits = torch.stack((logits, torch.zeros_like(logits)), -1)
        return logits.log_softmax(-1)

    def log_probs(self, logits: Tensor) -> Tensor:
        """Returns the log-probabilities, [row, outcome]."""
        alternative_log_probs = self.alternative_log_probs(logits)
        return alternative_log_probs[..., 0] if self.by.several else alternative_log_probs

    def entropy(self, logits: Tensor) -> Tensor:
        """Returns the entropy in nats, [row]."""
        each: Tensor = torch.special.entr(self.alternative_log_probs(logits).exp())
        return each.flatten(1).sum(-1)

    def divergence(self, was: Tensor, now: Tensor) -> Tensor:
        """Returns KL(was, now) in nats, [row]."""
        p, q = self.alternative_log_probs(was), self.alternative_log_probs(now)
        far: Tensor = (p.exp() * (p - q)).nan_to_num().flatten(1).sum(-1)
        return far

    def has_same_outcomes_as(self, other: Predicted) -> bool:
        """Whether two models choose among the same outcomes."""
        a, b = ((each.what, each.by.labels, each.by.several, each.shape) for each in (self, other))
        return a == b


def mask_token(view: View) -> int | None:
    known = view.model.tokenizer
    return None if known is None else known.special.get("mask")


@dataclass(frozen=True)
class Prediction:
    """One output with its probability and logit; `id` is a token id or label index."""

    id: int
    text: str
    probability: float
    logit: float


class Predictions(list[Prediction], Displayable):
    """A list of predictions, the most probable first."""

    def _repr_html_(self) -> str:
        from glassformer.inside.show.bars import predictions_html

        return predictions_html(self)

    @property
    def heading(self) -> str:
        return "What is predicted"


def predictions(view: View, position: int | None, top: int, head: str | None) -> Predictions:
    """Returns the `top` most probable outputs at a position.

    For extractive question answering, position 0 is the answer's start and 1 its end; `id` is then
    the position of a token. For regression, the logit is the predicted number and the probability
    is NaN.
    """
    found = Predicted(view, head)
    if found.what == "span":
        row = found.row(position or 0)
    else:
        row = found.row(default_position(view, position))
    logits = found.logits([row])
    (probabilities,), (scores,) = found.log_probs(logits).exp(), logits.float()
    if found.by.number:
        probabilities = torch.full_like(probabilities, float("nan"))
    best = scores.topk(min(top, len(scores))).indices
    return Predictions(
        Prediction(id, found.text(id), float(probabilities[id]), float(scores[id]))
        for id in best.tolist()
    )


def head_with_outputs(model: TaskModel, name: str | None) -> HeadSpec:
    """Returns the named head with logits, by default the first."""
    heads = [one for one in model.spec.heads if one.num_outputs is not None and not one.auxiliary]
    if not heads:
        raise UnsupportedError(
            f"{model.architecture} has no head with outputs, so there are no predictions; "
            "attention, residuals and all other tensors can be read."
        )
    return head_among(heads, name, " with outputs")


def default_position(view: View, position: int | None) -> int:
    """Returns the checked position.

    The default is the last token of a decoder; for an encoder the first mask, or else the first
    token.
    """
    size = len(view.tokens)
    if position is not None:
        check_index(position, size, "position")
        return position % size
    if view.stack == "decoder":
        return size - 1
    known = view.model.tokenizer
    mask = None if known is None else known.special.get("mask")
    ids = [token.id for token in view.tokens]
    return ids.index(mask) if mask is not None and mask in ids else 0


def output_text(view: View, head: HeadSpec, id: int) -> str:
    """Returns the text of an output: a token or a label."""
    if kind_of(head, view.model.spec) == "lm":
        return view.token_text(id)
    return output_names(view.model, head)[id]


def output_id(view: View, head: HeadSpec, what: int | str | None, logits: Tensor) -> int:
    """Returns the index of an output.

    `what` is a token or label by number, name or text; None is the most probable one.
    """
    count = logits.shape[-1]
    if what is None:
        return int(logits.argmax(-1))
    if isinstance(what, int):
        check_index(what, count, "output")
        return what % count
    return _named_output(view, head, what)


def _named_output(view: View, head: HeadSpec, what: str) -> int:
    if kind_of(head, view.model.spec) != "lm":
        labels = output_names(view.model, head)
        if what in labels:
            return labels.index(what)
        raise ConfigError(f"There is no label {what!r}, only {', '.join(labels)}.")
    return vocabulary_id(view, what, view.stack)


def vocabulary_id(view: View, what: int | str, stack: str) -> int:
    """Returns the id of one token of a stack's vocabulary, given by id or text."""
    known = view.model.tokenizer
    if isinstance(what, int):
        size = getattr(view.model.spec, stack).embed.vocabulary
        check_index(what, size, "token")
        return what % int(size)
    if known is None:
        raise ConfigError(f"{view.model.architecture} has no tokenizer; give a token id.")
    known = known.target_tokenizer if stack == view.stack else known
    if what in known:
        return known.id(what)
    bare = known.ids(what.removeprefix(" "))  # for tokenizers that add the space
    for ids in (known.ids(what), bare):
        if len(ids) != 1 or ids[0] == known.special.get("unk"):
            continue
        if ids is not bare or token_text(known, ids[0]) == what:
            return ids[0]
    raise ConfigError(
        f"{what!r} is not one token of the vocabulary; choose one, with its space if any."
    )
