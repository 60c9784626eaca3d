"""Activation patching: which activations carry the difference between two texts.

`sweep` patches one place after the other with the activations of another text and measures a logit.
`path` is path patching: a sender's output takes its value from the other text only as far as some
receivers read it, while all heads (and optionally feed-forward layers) in between keep their
original output (Wang et al., 2022; Goldowsky-Dill et al., 2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import product
from typing import Any

import torch
from torch import Tensor

from glassformer.core.model_output import ModelOutput
from glassformer.errors import InputError
from glassformer.inside.attribute.gradients import AttributedOutput
from glassformer.inside.capture.cancellation import report_progress
from glassformer.inside.capture.look import look
from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.capture.names import ATTENTION, names_of
from glassformer.inside.capture.view import View
from glassformer.inside.intervene.edit import Edit, Edits, Resolved, own_part
from glassformer.tasks.model_protocol import TaskModel

AT_ONCE = 16  # rows per forward pass
Place = tuple[int, ...]  # a position or a head, or a head and a position


@torch.no_grad()
def sweep(
    model: TaskModel,
    text: Text,
    source: Text,
    tensor: str = "resid_pre",
    *,
    target: Text | None = None,
    token: int | str | None = None,
    versus: int | str | None = None,
    position: int | None = None,
    head: str | None = None,
    by_position: bool = False,
) -> NamedTensor:
    """Patches every place of a tensor, one at a time, and measures the change of a logit.

    Args:
        model: The model.
        text: The text that is patched.
        source: The text that the patches come from. Texts of equally many tokens are patched
            position by position, others where `aligned` finds the same or replaced tokens.
        tensor: The tensor to patch.
        target: The decoder text of an encoder-decoder model.
        token: The token or label whose logit is measured; None is the predicted one.
        versus: Another output; the difference of the two logits is measured.
        position: The position of the logit.
        head: The head.
        by_position: Whether to patch each position of a head separately.

    Returns:
        The change of the logit, [layer, position], or [layer, head] for per-head tensors (`z`, `q`,
        `k`, `v`, `pattern`), or [layer, head, position] with `by_position`.
    """
    view, other = look(model, text, target), look(model, source, target)
    pairs = aligned([one.id for one in view.tokens], [one.id for one in other.tokens])
    if tensor == "pattern" and len(view.tokens) != len(other.tokens):
        raise InputError(
            f"The texts have {len(view.tokens)} and {len(other.tokens)} tokens, so their patterns "
            "have different sizes; patch another tensor, or use texts of equal length."
        )
    names = [view.name(layer, tensor) for layer in range(len(view.spec.order))]
    view.run_with_cache(names)
    other.capture(names)
    questions = [AttributedOutput.of(view, token, position, head)]
    if versus is not None:
        questions.append(AttributedOutput.of(view, versus, position, head))
    plain = questions[0].logit - sum(q.logit for q in questions[1:])
    by_head = tensor in ATTENTION and tensor != "attn_out"
    sizes = view.cache[names[0]].shape[1 : 3 if by_head and by_position else 2]
    places = list(product(*map(range, sizes)))
    rows = []
    for layer, name in enumerate(names):
        report_progress(layer, len(names))
        found = []
        there = _moved(view.cache[name], other.cache[name], pairs, 2 if by_head else 1)
        for start in range(0, len(places), AT_ONCE):
            some = places[start : start + AT_ONCE]
            out = _rows(view, name, there, some)
            found.append(questions[0].of_output(out) - sum(q.of_output(out) for q in questions[1:]))
        rows.append(torch.cat(found).view(sizes) - plain)
    axes: tuple[str, ...] = ("layer", "head", "position") if by_head else ("layer", "position")
    labels = {
        "layer": [str(i) for i in range(len(names))],
        "head": [str(i) for i in range(sizes[0])],
        "position": [token.text for token in view.tokens],
    }
    title = f"change of the logit of {questions[0].text!r} by a patch of {tensor}"
    axes = axes[: 1 + len(sizes)]
    return NamedTensor(torch.stack(rows), axes, {axis: labels[axis] for axis in axes}, title)


def aligned(here: Sequence[int | None], there: Sequence[int | None]) -> list[tuple[int, int]]:
    """Returns pairs of positions of two texts whose activations are compared.

    Texts of equal length are paired position by position. Of others, equal tokens are paired, and
    of a replaced stretch the tokens from its end, where it has been read.

    >>> aligned([1, 2, 3], [1, 7, 8, 3])
    [(0, 0), (1, 2), (2, 3)]
    """
    if len(here) == len(there):
        return [(at, at) for at in range(len(here))]
    pairs: list[tuple[int, int]] = []
    for _, a, b, c, d in SequenceMatcher(None, here, there, autojunk=False).get_opcodes():
        count = min(b - a, d - c)
        pairs.extend(zip(range(b - count, b), range(d - count, d), strict=True))
    return pairs


def _moved(own: Tensor, other: Tensor, pairs: Sequence[tuple[int, int]], axis: int) -> Tensor:
    """The values of the other text at paired positions, and the own values elsewhere."""
    if own.shape == other.shape or not pairs:
        return other if pairs else own
    here, there = (torch.tensor(side, device=own.device) for side in zip(*pairs, strict=True))
    return own.index_copy(axis, here, other.index_select(axis, there))


def _rows(view: View, name: str, there: Tensor, places: Sequence[Place]) -> ModelOutput:
    """A pass with one row per place; in each row, one place of the tensor is patched."""

    inputs = {k: v.expand(len(places), *v.shape[1:]) for k, v in view.model_inputs.inputs.items()}
    return view.run(OnePlaceEach(name, there, places), **inputs)


@dataclass(frozen=True)
class OnePlaceEach:
    """A hook that patches one place of a tensor in each row with the value of another text."""

    name: str
    there: Tensor  # [1, place, ...]
    places: Sequence[Place]  # one per row

    def wants(self, name: str) -> bool:
        return name == self.name

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if not self.wants(name):
            return value
        value = value.clone()
        for row, place in enumerate(self.places):
            value[row, *place] = self.there[0, *place]
        return value


@torch.no_grad()
def path(
    model: TaskModel,
    text: Text,
    source: Text,
    *,
    senders: Sequence[Edit | Mapping[str, Any]],
    receivers: Sequence[Edit | Mapping[str, Any] | str],
    target: Text | None = None,
    head: str | None = None,
    freeze_feed_forward: bool = False,
) -> View:
    """Path patching from senders to receivers.

    Args:
        model: The model.
        text: The text that is patched.
        source: The text that the senders' outputs come from.
        senders: Names with heads and positions, as in an `Edit`, such as {"at": "blocks.3.z",
            "heads": [1]}.
        receivers: The same, such as "blocks.7.q", or "final" for the head's input.
        target: The decoder text of an encoder-decoder model.
        head: The head of the view, as in `look`.
        freeze_feed_forward: Whether feed-forward layers between senders and receivers also keep
            their output for `text`, as attention always does.

    Returns:
        The view of `text` in which the receivers read what they would if the senders had their
        output for `source` and nothing in between had changed.
    """
    plain = look(model, text, target, head=head)
    sending = [_as_patch(one, source, target) for one in senders]
    receiving = [_as_patch(one, text, target) for one in receivers]
    held = ("z", "ffn_out") if freeze_feed_forward else ("z",)
    frozen = [
        name
        for name in names_of(model.spec)
        if name.split(".")[-1] in held and (".cross." not in name or model.encoder is not None)
    ]
    plain.capture(frozen)
    first = look(model, source, target)
    hold = [Edit(kind="patch", at=name, source="the text itself") for name in frozen]
    from_source = [(edit, first) for edit in sending]
    edits = _resolved(model, [*((edit, plain) for edit in hold), *from_source])
    noticed = View(model, plain.model_inputs, edits)
    heard = _resolved(model, [(edit, noticed) for edit in receiving])
    return View(model, plain.model_inputs, heard, head)


def _as_patch(given: Edit | Mapping[str, Any] | str, source: Text, target: Text | None) -> Edit:
    if isinstance(given, Edit):
        given = given.json()
    named = {"at": given} if isinstance(given, str) else dict(given)
    return Edit.of({**named, "kind": "patch", "from": source, "from_target": target})


def _resolved(model: TaskModel, pairs: Sequence[tuple[Edit, View]]) -> Edits:
    """Patches from existing views."""
    found = []
    for edit, view in pairs:
        one = Resolved.of(edit, model.spec, {})
        view.capture(one.axes)
        held = {
            n: own_part(n, axes, view.cache[n], view.model_inputs) for n, axes in one.axes.items()
        }
        found.append(Resolved(edit, one.axes, held))
    return Edits(found)
