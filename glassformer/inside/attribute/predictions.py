"""The most probable outputs of a view, and the selection of heads, positions and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside.attribute.predicted import Predicted, output_names
from glassformer.inside.capture.named_tensor import check_index
from glassformer.inside.displayable import Displayable
from glassformer.spec import HeadSpec, head_among
from glassformer.tasks.model_protocol import TaskModel, kind_of

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View


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
    (chances,), (scores,) = found.log_chances(logits).exp(), logits.float()
    if found.by.number:
        chances = torch.full_like(chances, float("nan"))
    best = scores.topk(min(top, len(scores))).indices
    return Predictions(
        Prediction(id, found.text(id), float(chances[id]), float(scores[id]))
        for id in best.tolist()
    )


def head_with_outputs(model: TaskModel, name: str | None) -> HeadSpec:
    """Returns the named head with logits, by default the first."""
    heads = [one for one in model.spec.heads if one.num_outputs is not None and not one.auxiliary]
    if not heads:
        raise UnsupportedError(
            f"{model.architecture} has no head with outputs, so nothing is predicted; attention, "
            "residuals and all other tensors are there."
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
    known = view.model.tokenizer
    if known is None:
        raise ConfigError(f"{view.model.architecture} has no tokenizer; give a token's number.")
    if what in known.target:
        return known.target.id(what)
    bare = known.target.ids(what.removeprefix(" "))  # for tokenizers that add the space
    for ids in (known.target.ids(what), bare):
        if len(ids) != 1 or ids[0] == known.target.special.get("unk"):
            continue
        if ids is not bare or view.token_text(ids[0]) == what:
            return ids[0]
    raise ConfigError(
        f"{what!r} is not one token of the vocabulary; choose one, with its space if any."
    )
