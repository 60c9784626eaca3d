"""Which activations carry the difference between two texts.

`sweep` puts what another text has at one place after the other and asks for a logit. `path` follows
one way: a sender's output counts as in the other text only as far as some receivers read it, while
all heads (and feed-forward layers) between say what they said (Wang et al., 2022; Goldowsky-Dill
et al., 2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from glassformer.core.transformer import ModelOutput
from glassformer.errors import GlassformerError
from glassformer.inside.attribute.gradients import AttributedOutput
from glassformer.inside.capture.look import look
from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.capture.names import ATTENTION, names_of
from glassformer.inside.capture.view import View
from glassformer.inside.intervene.edit import Edit, Edits, Resolved, own_part
from glassformer.tasks.model_protocol import TaskModel

AT_ONCE = 16  # texts that are computed side by side
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
    """How a logit (or its difference to that of `versus`) of `text` changes when one place has what
    `source`, a text of as many tokens, has there: [layer, position], or [layer, head] of tensors
    that heads have (`z`, `q`, `k`, `v`, `pattern`; with `by_position`, [layer, head, position])."""
    view, other = look(model, text, target), look(model, source, target)
    if len(view.tokens) != len(other.tokens):
        raise GlassformerError(
            f"The texts have {len(view.tokens)} and {len(other.tokens)} tokens; place by place "
            "they can be compared where they have equally many."
        )
    names = [view.name(layer, tensor) for layer in range(len(view.spec.order))]
    view.read_through()
    other.capture(names)
    questions = [AttributedOutput.of(view, token, position, head)]
    if versus is not None:
        questions.append(AttributedOutput.of(view, versus, position, head))
    plain = questions[0].logit - sum(q.logit for q in questions[1:])
    by_head = tensor in ATTENTION and tensor != "attn_out"
    sizes = other.seen[names[0]].shape[1 : 3 if by_head and by_position else 2]
    places = list(product(*map(range, sizes)))
    rows = []
    for name in names:
        found = []
        for start in range(0, len(places), AT_ONCE):
            some = places[start : start + AT_ONCE]
            out = _rows(view, name, other.seen[name], some)
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


def _rows(view: View, name: str, there: Tensor, places: Sequence[Place]) -> ModelOutput:
    """A pass of as many rows as places; in each, one place of the tensor is another's."""

    inputs = {k: v.expand(len(places), *v.shape[1:]) for k, v in view.reading.inputs.items()}
    return view.run(OnePlaceEach(name, there, places), **inputs)


@dataclass(frozen=True)
class OnePlaceEach:
    """A tap by which every row has, at a place of its own, what another text has `there`."""

    name: str
    there: Tensor  # [1, place, ...]
    places: Sequence[Place]  # a row's

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
    """The view of `text` where the receivers read what they would if the senders had said what they
    say of `source`, and nothing between them had noticed.

    Senders are names with heads and positions, as `Edit`s have them ({"at": "blocks.3.z", "heads":
    [1]}); receivers likewise ("blocks.7.q", or "final" for what the head reads). Attention between
    them is held at what it says of `text`; so are feed-forward layers, if asked for. `head` is the
    view's, as in `look`.
    """
    plain = look(model, text, target, head=head)
    sending = [_as_patch(one, source, target) for one in senders]
    receiving = [_as_patch(one, text, target) for one in receivers]
    held = ("z", "ffn_out") if freeze_feed_forward else ("z",)
    frozen = [
        name
        for name in names_of(model.spec)
        if name.split(".")[-1] in held and (".cross." not in name or model.net.encoder is not None)
    ]
    plain.capture(frozen)
    first = look(model, source, target)
    hold = [Edit(kind="patch", at=name, source="the text itself") for name in frozen]
    from_source = [(edit, first) for edit in sending]
    edits = _resolved(model, [*((edit, plain) for edit in hold), *from_source])
    noticed = View(model, plain.reading, edits)
    heard = _resolved(model, [(edit, noticed) for edit in receiving])
    return View(model, plain.reading, heard, head)


def _as_patch(given: Edit | Mapping[str, Any] | str, source: Text, target: Text | None) -> Edit:
    if isinstance(given, Edit):
        given = given.json()
    named = {"at": given} if isinstance(given, str) else dict(given)
    return Edit.of({**named, "kind": "patch", "from": source, "from_target": target})


def _resolved(model: TaskModel, pairs: Sequence[tuple[Edit, View]]) -> Edits:
    """Patches from views that are there already."""
    found = []
    for edit, view in pairs:
        one = Resolved.of(edit, model.spec, {})
        view.capture(one.axes)
        held = {n: own_part(n, axes, view.seen[n], view.reading) for n, axes in one.axes.items()}
        found.append(Resolved(edit, one.axes, held))
    return Edits(found)
