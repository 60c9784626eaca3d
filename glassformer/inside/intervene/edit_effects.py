"""Effects of edits on predictions, compared with the run without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.core import Transformer
from glassformer.inside.attribute.predictions import Predicted, output_text
from glassformer.inside.capture.named_tensor import NamedTensor, check_index
from glassformer.inside.capture.view import View
from glassformer.inside.compare import Mover, divergence, movers
from glassformer.inside.intervene.choices import OutputChoice, choices
from glassformer.inside.lens.lens import pieces
from glassformer.inside.lens.stages import language_head, stage_names, stage_of
from glassformer.spec import HeadSpec


@dataclass(frozen=True, eq=False)
class EditEffects:
    """The effect of edits on the prediction at a position (or another row, see `predictions.py`).

    Attributes:
        before: The candidates without the edits.
        after: The candidates with the edits.
        moved: The outputs whose probability changed most.
        divergence: KL(before, after) in nats, [position].
    """

    before: OutputChoice
    after: OutputChoice
    moved: list[Mover]
    divergence: NamedTensor


@torch.no_grad()
def edit_effects(
    before: View, after: View, position: int, *, top: int = 10, **options: Any
) -> EditEffects:
    """Compares the predictions of two views of one text; see `choices` for the other arguments."""
    was, now = Predicted(before), Predicted(after)
    (first,), (second,) = (
        choices(view, [position], top=top, **options) for view in (before, after)
    )
    return EditEffects(first, second, movers(was, now, position, top), divergence(was, now))


@dataclass(frozen=True, eq=False)
class TopPrediction:
    """The most probable token at every stage and position, and its probability."""

    best: NamedTensor
    probability: NamedTensor


@dataclass(frozen=True, eq=False)
class LensChanges:
    """The top predictions of each layer's lens; the stages are the embedding, then every layer."""

    stages: tuple[tuple[int | None, str], ...]
    positions: tuple[int, ...]
    before: TopPrediction
    after: TopPrediction
    words: dict[int, str]


@torch.no_grad()
def lens_changes(before: View, after: View, positions: Sequence[int] | None = None) -> LensChanges:
    """Compares the logit lens of two views of one text.

    Only rows that the edits changed are decoded again.

    Args:
        before: The view without the edits.
        after: The view with the edits.
        positions: The positions, by default all.

    Returns:
        The top predictions of both views.
    """
    head, size = language_head(before.model, before.head), len(before.tokens)
    places = list(range(size) if positions is None else positions)
    for place in places:
        check_index(place, size, "position")
    names = [name for name in stage_names(before.model.spec) if stage_of(name)[1] != "attention"]
    was, now = (_streams(view, names, places) for view in (before, after))
    first = before.once(f"said at {places}", lambda: _top_prediction(before, head, was))
    touched = (was != now).any(-1)
    best, likely = (one.clone() for one in first)
    best[touched], likely[touched] = _top_prediction(after, head, now[touched])
    words = {id: output_text(before, head, id) for id in {*first[0].tolist(), *best.tolist()}}

    def named_top(tokens: Tensor, probabilities: Tensor) -> TopPrediction:
        shape = len(names), len(places)
        return TopPrediction(
            _named(before, places, tokens.view(shape), "best tokens"),
            _named(before, places, probabilities.view(shape), "their probability"),
        )

    stages = tuple(stage_of(name) for name in names)
    return LensChanges(stages, tuple(places), named_top(*first), named_top(best, likely), words)


def _streams(view: View, names: Sequence[str], places: list[int]) -> Tensor:
    """The residual streams, [stage * position, width]."""
    view.run_with_cache(names)
    return torch.cat([view.cache[name][0, places] for name in names])


def _top_prediction(view: View, head: HeadSpec, streams: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable token of each row, and its probability."""
    best = torch.empty(len(streams), dtype=torch.long, device=streams.device)
    likely = torch.empty(len(streams), device=streams.device)
    for at, logits in pieces(view, head, streams):
        rows = slice(at, at + len(logits))
        most, best[rows] = logits.float().max(-1)
        likely[rows] = (most - logits.float().logsumexp(-1)).exp()
    return best, likely


def _named(view: View, places: Sequence[int], array: Tensor, title: str) -> NamedTensor:
    axes = ("stage", "position")[-array.ndim :]
    return NamedTensor(array, axes, {"position": [view.tokens[at].text for at in places]}, title)


@torch.no_grad()
def weight_changes(a: Transformer, b: Transformer) -> list[tuple[str, float]]:
    """Returns the relative changes of the parameters between two models, largest first.

    A relative change is the norm of the difference divided by the norm of the original. A parameter
    that was all zeros, such as an initial bias, has changed by 1.
    """
    others = dict(b.named_parameters())
    found = {
        name: float((others[name] - weight).norm() / (weight.norm() or others[name].norm() or 1.0))
        for name, weight in a.named_parameters()
        if name in others and others[name].shape == weight.shape
    }
    return sorted(found.items(), key=lambda each: -each[1])
