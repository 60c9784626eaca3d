"""Inside room, choices: what might come at each position, as the model has it and as the knobs of
sampling leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.generate.knobs import Knobs
from glassformer.generate.sampling import shaped
from glassformer.inside.lens import stage_names
from glassformer.inside.named import check_index
from glassformer.inside.predictions import language_head, output_text

if TYPE_CHECKING:
    from glassformer.inside.view import View


@dataclass(frozen=True)
class Candidate:
    """`logit`, `logprob` and `rank` (0 is the best) are the model's own; `probability` is what
    temperature, top-k, top-p and min-p make of it, 0 where they leave the token out."""

    token: int
    text: str
    logit: float
    logprob: float
    probability: float
    rank: int


@dataclass(frozen=True)
class Choice:
    """The best candidates of a position, and what really comes there; `entropy` (in nats) and
    `left` (how many tokens there are) are of the distribution with the knobs."""

    position: int
    candidates: tuple[Candidate, ...]
    actual: Candidate | None
    entropy: float
    left: int


@torch.no_grad()
def choices(
    view: View, positions: Sequence[int] | None = None, *, top: int = 10, **knobs: Any
) -> list[Choice]:
    """At all positions, or some. The knobs are temperature, top_k, top_p, min_p of `generate`.

    >>> choices(model.look("To be, or"), [-1], temperature=0.8)[0].candidates
    """
    head, size = language_head(view), len(view.tokens)
    places = list(range(size)) if positions is None else list(positions)
    for place in places:
        check_index(place, size, "position")
    places = [place % size for place in places]
    logits = view.output.heads[head.name][0][places]  # [position, token]
    turned = Knobs(do_sample=True, **knobs)
    actual = [actual_token(view, place) for place in places]
    return choose(view, places, logits, actual, turned, top)


@torch.no_grad()
def stage_choice(view: View, stage: int, position: int, top: int = 10) -> Choice:
    """What a stage of the lens would say at a position."""
    names = stage_names(view)
    check_index(stage, len(names), "row")
    view.capture(names)
    stream = view.seen[names[stage]][:, position : position + 1]
    logits = view.model.net.readout(stream, language_head(view).name)[0]
    return choose(view, [position], logits, [actual_token(view, position)], Knobs(), top)[0]


def choose(
    view: View,
    places: Sequence[int],
    logits: Tensor,  # [position, token]
    actual: Sequence[int | None],
    knobs: Knobs,
    top: int,
) -> list[Choice]:
    head, scores = language_head(view), logits.float()
    logprobs = scores.log_softmax(-1)
    left = shaped(scores, knobs)
    chances = left.softmax(-1)
    entropy = torch.special.entr(chances).sum(-1)
    counts = left.isfinite().sum(-1)
    best = scores.topk(min(top, scores.shape[-1])).indices  # [position, rank]

    def candidate(row: int, token: int, rank: int) -> Candidate:
        return Candidate(
            token,
            output_text(view, head, token),
            float(scores[row, token]),
            float(logprobs[row, token]),
            float(chances[row, token]),
            rank,
        )

    found = []
    for row, (place, ids, true) in enumerate(zip(places, best.tolist(), actual, strict=True)):
        real = None
        if true is not None:
            real = candidate(row, true, int((scores[row] > scores[row, true]).sum()))
        ranked = tuple(candidate(row, token, rank) for rank, token in enumerate(ids))
        found.append(Choice(place, ranked, real, float(entropy[row]), int(counts[row])))
    return found


def actual_token(view: View, position: int) -> int | None:
    """What a decoder reads next, and what stands where an encoder looks, unless that is a mask."""
    ids = [token.id for token in view.tokens]
    if view.stack == "decoder":
        return ids[position + 1] if position + 1 < len(ids) else None
    return None if ids[position] == mask_token(view) else ids[position]


def mask_token(view: View) -> int | None:
    known = view.model.tokenizer
    return None if known is None else known.special.get("mask")
