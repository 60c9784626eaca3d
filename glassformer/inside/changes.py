"""Inside room, changes: what edits do to what is predicted, beside the run without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from glassformer.core import Net
from glassformer.inside.choices import Choice, choices
from glassformer.inside.compare import Mover
from glassformer.inside.lens import Lens
from glassformer.inside.named import Named
from glassformer.inside.predictions import language_head, output_text
from glassformer.inside.view import View


@dataclass(frozen=True, eq=False)
class Changes:
    """At a position the candidates before and after, those that have moved most, and both lenses;
    `divergence` is KL(before, after) in nats, [position]."""

    before: Choice
    after: Choice
    moved: list[Mover]
    divergence: Named
    lens_before: Lens
    lens_after: Lens


@torch.no_grad()
def changes(
    before: View, after: View, position: int, *, whole: bool = True, top: int = 10, **knobs: Any
) -> Changes:
    """Of two views of one text. The lens of all positions, or (`whole` False, much sooner) of the
    one alone. The knobs are those of `choices`."""
    head = language_head(before)
    logits = [view.output.heads[head.name][0].float() for view in (before, after)]
    was, now = (each.log_softmax(-1) for each in logits)
    far = F.kl_div(now, was, reduction="none", log_target=True).sum(-1)
    shift = (now[position].exp() - was[position].exp()).abs().topk(min(top, now.shape[-1])).indices
    moved = [
        Mover(
            id,
            output_text(before, head, id),
            float(was[position, id].exp()),
            float(now[position, id].exp()),
        )
        for id in shift.tolist()
    ]
    labels = {"position": [token.text for token in before.tokens]}
    places = None if whole else [position]
    (first,), (second,) = (choices(view, [position], top=top, **knobs) for view in (before, after))
    return Changes(
        before=first,
        after=second,
        moved=moved,
        divergence=Named(far, ("position",), labels, "divergence"),
        lens_before=before.lens(top=1, positions=places),
        lens_after=after.lens(top=1, positions=places),
    )


@torch.no_grad()
def weight_changes(a: Net, b: Net) -> list[tuple[str, float]]:
    """How far the parameters of two models are apart, the size of the difference over the size of
    what was, the largest first."""
    others = dict(b.named_parameters())
    found = {
        name: float((others[name] - weight).norm() / weight.norm().clamp(min=1e-12))
        for name, weight in a.named_parameters()
        if name in others and others[name].shape == weight.shape
    }
    return sorted(found.items(), key=lambda each: -each[1])
