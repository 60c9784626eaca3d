"""Comparison of two models on one text: which heads and layers changed.

Typical uses are a fine-tuned model and its base, a model with its adapter on and off, or two steps
of one training run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer import adapters
from glassformer.core.stack import Stack
from glassformer.errors import GlassformerError, InputError, UnsupportedError
from glassformer.inside.attribute.predictions import ENDS, Predicted
from glassformer.inside.capture.look import look
from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.capture.names import names_of
from glassformer.inside.capture.stack_view import StackView
from glassformer.inside.capture.view import View
from glassformer.inside.displayable import Displayable
from glassformer.tasks.model_protocol import TaskModel

SEEN = ("pattern", "z", "attn_out", "ffn_out", "resid_post")


@dataclass(frozen=True, eq=False)
class SideComparison:
    """The differences within one stack, or within cross-attention.

    The per-head tensors are [layer, head], the others [layer]. A relative change is the norm of the
    difference divided by the norm of the original.

    Attributes:
        pattern: Total variation distance between the attention patterns, averaged over queries (0:
            identical, 1: disjoint).
        divergence: Jensen-Shannon divergence between the attention patterns in bits, averaged over
            queries.
        head_change: Relative change of what each head writes to the residual stream.
        head_cosine: Cosine similarity between what each head writes in the two models.
        attention_change: Relative change of the attention output.
        feed_forward_change: Relative change of the feed-forward output.
        residual_change: Relative change of the residual stream after the layer.
        residual_cosine: Cosine similarity between the two residual streams.
    """

    pattern: NamedTensor
    divergence: NamedTensor
    head_change: NamedTensor
    head_cosine: NamedTensor
    attention_change: NamedTensor
    feed_forward_change: NamedTensor | None
    residual_change: NamedTensor | None
    residual_cosine: NamedTensor | None


@dataclass(frozen=True)
class Mover:
    """A token (or label) whose probability changed."""

    id: int
    text: str
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class ModelComparison(Displayable):
    """The result of `compare`.

    Attributes:
        before: The view of the first model.
        after: The view of the second model.
        sides: Comparisons by "encoder", "decoder" and "cross", for those stacks of the model that
            have attention.
        logit_divergence: KL(before, after) in nats, [position]; None if the outputs of the two
            models are not comparable.
    """

    before: View
    after: View
    sides: dict[str, SideComparison]
    logit_divergence: NamedTensor | None

    def moved(self, count: int = 10) -> list[tuple[str, int, int, float]]:
        """Returns the heads that changed most, as (side, layer, head, total variation)."""
        found = [
            (name, layer, head, float(value))
            for name, side in self.sides.items()
            for layer, row in enumerate(side.pattern.array)
            for head, value in enumerate(row)
        ]
        return sorted(found, key=lambda each: -each[3])[:count]

    def movers(self, position: int = -1, count: int = 10) -> list[Mover]:
        """Returns the outputs whose probability at a position changed most.

        For an extractive question answering model, position 0 is the answer's start and 1 its end.
        """
        if self.logit_divergence is None:
            raise UnsupportedError(
                "The two models have different outputs, or one has none; their attention "
                "patterns and residual streams can still be compared."
            )
        return movers(Predicted(self.before), Predicted(self.after), position, count)

    def __repr__(self) -> str:
        first = self.moved(1)
        largest = (
            "" if not first else ": {} layer {} head {} moved most, by {:.3f}".format(*first[0])
        )
        return f"<{self.before.model.architecture} before and after{largest}>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.comparison import html

        return html(self)

    @property
    def heading(self) -> str:
        return "Before and after"


@torch.no_grad()
def compare(
    a: TaskModel, b: TaskModel, text: Text, target: Text | None = None, *, head: str | None = None
) -> ModelComparison:
    """Compares model `b` with model `a` on one text.

    If `a` and `b` are the same model, it is compared without and with its adapter.

    Args:
        a: The model before the change.
        b: The model after the change.
        text: The input text.
        target: The decoder text of an encoder-decoder model.
        head: The head whose outputs are compared, by default the first. Patterns and residual
            streams are compared even if only one of the models has this head.

    Returns:
        A `ModelComparison`.
    """
    for one in (a, b):
        if isinstance(one, str | Path):
            raise InputError(f"compare needs loaded models: give gf.load({str(one)!r}).")
    there = [head if head in [one.name for one in model.spec.heads] else None for model in (a, b)]
    first, second = there if any(there) else (head, head)  # if neither has it, `look` raises
    if a is b and adapters.active(a) is None:
        raise InputError(
            "Comparing a model with itself compares its adapter off and on, and this model has "
            "no active adapter; give two models."
        )
    _check(a, b)
    with adapters.switched_off(a) if a is b else nullcontext():
        before = look(a, text, target, at=_wanted(a), head=first)
    after = look(b, text, target, at=_wanted(b), head=second)
    sides = {name: _side(x, y) for name, x, y in _pairs(before, after)}
    return ModelComparison(before, after, sides, _divergence(before, after))


def _wanted(model: TaskModel) -> list[str]:
    there = model.encoder is not None
    return [
        name
        for name in names_of(model.spec)
        if name.split(".")[-1] in SEEN and (there or ".cross." not in name)
    ]


def _check(a: TaskModel, b: TaskModel) -> None:
    if (a.tokenizer is None) != (b.tokenizer is None) or (
        a.tokenizer is not None
        and b.tokenizer is not None
        and a.tokenizer.fingerprint != b.tokenizer.fingerprint
    ):
        raise InputError(
            "The two models have different tokenizers, so their tokens cannot be aligned; "
            "compare models with the same tokenizer."
        )
    shapes = [
        [
            (stack.width, [_heads(block) for block in stack.blocks], stack.order) if stack else None
            for stack in (model.spec.encoder, model.spec.decoder)
        ]
        for model in (a, b)
    ]
    if shapes[0] != shapes[1]:
        raise InputError(
            f"{a.architecture} and {b.architecture} differ in layers, heads or width; compare two "
            "checkpoints of one model."
        )


def _heads(layer: object) -> int:
    attention = getattr(layer, "attention", None)
    return 0 if attention is None else int(attention.heads)


def _pairs(a: View, b: View) -> Iterator[tuple[str, StackView, StackView]]:
    """Yields the stacks that have attention; a recurrent stack has nothing to compare."""
    names = names_of(a.model.spec)
    for stack in ("encoder", "decoder"):
        if f"{stack}.blocks.0.attn_out" in names:
            yield stack, StackView(a, stack), StackView(b, stack)
    both = a.model.encoder is not None and a.model.decoder is not None
    if both and "decoder.blocks.0.cross.attn_out" in names:
        yield "cross", a.cross, b.cross


def _side(a: StackView, b: StackView) -> SideComparison:
    lists: list[list[Tensor]] = [[] for _ in range(8)]
    pattern, divergence, change, cosine, attended, fed, stream, turned = lists
    ffn = not a.scope and a.stack + ".blocks.0.ffn_out" in names_of(a.view.model.spec)
    for layer in range(len(a.spec.order)):
        was, now = (side.attention[layer].array.float() for side in (a, b))
        keys = min(was.shape[-1], now.shape[-1])  # an adapter may prepend tokens
        was, now = was[..., -keys:], now[..., -keys:]
        pattern.append((was - now).abs().sum(-1).mean(-1) / 2)
        divergence.append(_jensen_shannon(was, now).mean(-1))
        wrote = [_written(side, layer) for side in (a, b)]
        change.append(_relative(*wrote))
        cosine.append(_cosine(*wrote))
        attended.append(_relative(*(side.attention_out[layer].array[None] for side in (a, b)))[0])
        if ffn:
            fed.append(_relative(*(side.feed_forward_out[layer].array[None] for side in (a, b)))[0])
            after = [side.residual[layer].array[None] for side in (a, b)]
            stream.append(_relative(*after)[0])
            turned.append(_cosine(*after)[0])

    def named(rows: list[Tensor], title: str) -> NamedTensor:
        array = torch.stack(rows)
        labels = {"layer": [str(i) for i in range(len(rows))]}
        axes = ("layer", "head")[: array.ndim]
        if array.ndim == 2:
            labels["head"] = [str(i) for i in range(array.shape[1])]
        return NamedTensor(array, axes, labels, f"{a.title}: {title}")

    return SideComparison(
        pattern=named(pattern, "patterns, total variation"),
        divergence=named(divergence, "patterns, Jensen-Shannon divergence"),
        head_change=named(change, "what heads write, relative change"),
        head_cosine=named(cosine, "what heads write, cosine"),
        attention_change=named(attended, "attention, relative change"),
        feed_forward_change=named(fed, "feed-forward, relative change") if ffn else None,
        residual_change=named(stream, "stream, relative change") if ffn else None,
        residual_cosine=named(turned, "stream, cosine") if ffn else None,
    )


def _written(side: StackView, layer: int) -> Tensor:
    """What each head writes to the residual stream: [head, position, width]."""
    z = side.z[layer].array.float()
    stack = getattr(side.view.model, side.stack)
    assert isinstance(stack, Stack)
    block = stack.blocks[side.spec.order[layer]]
    part: Any = getattr(block, "cross" if side.scope else "attention", None)
    if part is None:  # a memory hop writes z unprojected
        return z
    by_head: Tensor = part.out.weight.float().view(-1, len(z), z.shape[-1])  # [width, head, dim]
    written: Tensor = torch.einsum("hpd,whd->hpw", z, by_head)
    return written


def _relative(was: Tensor, now: Tensor) -> Tensor:
    """[head]: the norm of the difference divided by the norm of the original."""
    size: Tensor = was.float().flatten(1).norm(dim=-1)
    apart: Tensor = (now - was).float().flatten(1).norm(dim=-1)
    return apart / size.clamp(min=1e-12)


def _cosine(was: Tensor, now: Tensor) -> Tensor:
    """[head], averaged over positions."""
    cosine: Tensor = F.cosine_similarity(was.float(), now.float(), dim=-1)
    return cosine.mean(-1)


def _jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """Jensen-Shannon divergence in bits: 0 if identical, 1 if disjoint."""
    middle = (p + q) / 2
    apart = (torch.xlogy(x, x) - torch.xlogy(x, middle) for x in (p, q))
    return torch.stack(list(apart)).sum((0, -1)) / (2 * math.log(2))


def movers(was: Predicted, now: Predicted, position: int, count: int) -> list[Mover]:
    """Returns the outcomes of one row of predictions whose probability changed most."""
    row = was.row(position)
    before, after = (each.log_probs(each.logits([row]))[0].exp() for each in (was, now))
    best = (after - before).abs().topk(min(count, len(before))).indices.tolist()
    return [Mover(i, was.text(i), float(before[i]), float(after[i])) for i in best]


def divergence(was: Predicted, now: Predicted) -> NamedTensor:
    """Returns KL(was, now) in nats for every row of predictions."""
    far = was.divergence(was.logits(), now.logits())
    words = {"position": [token.text for token in was.view.tokens], "end": ENDS[: len(far)]}
    axis = was.axes[0]
    labels = {axis: words[axis]} if axis in words else {}
    return NamedTensor(far, (axis,), labels, "predictions, KL(before, after)")


def _divergence(a: View, b: View) -> NamedTensor | None:
    """The divergence of the predictions; None if the outcomes of the two views differ."""
    try:
        was, now = Predicted(a), Predicted(b)
    except GlassformerError:
        return None
    same = a.head == b.head and was.has_same_outcomes_as(now)
    return divergence(was, now) if same else None
