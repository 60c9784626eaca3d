"""Output distributions of a view, before and after temperature, top-k, top-p and min-p."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from glassformer.generate.config import GenerationConfig
from glassformer.generate.sampling import shaped
from glassformer.inside.attribute.predictions import Predicted
from glassformer.inside.capture.named_tensor import check_index
from glassformer.inside.lens.stages import stage_names

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View
    from glassformer.inside.lens.tuned_lens import TunedLens


@dataclass(frozen=True)
class OutputCandidate:
    """One candidate output.

    `token` is a token id, or another outcome (see `predictions.py`). `logit`, `logprob` and `rank`
    (0 is the best) are the model's own; `probability` is after temperature, top-k, top-p and min-p,
    0 if they exclude the token.
    """

    token: int
    text: str
    logit: float
    logprob: float
    probability: float
    rank: int


@dataclass(frozen=True)
class OutputChoice:
    """The output distribution at a position (or another row, see `predictions.py`).

    Attributes:
        position: The position.
        candidates: The best candidates.
        actual: The true outcome, if the text contains it.
        entropy: The entropy in nats after the sampling settings.
        left: The number of outcomes that the sampling settings leave.
    """

    position: int
    candidates: tuple[OutputCandidate, ...]
    actual: OutputCandidate | None
    entropy: float
    left: int


@torch.no_grad()
def choices(
    view: View, positions: Sequence[int] | None = None, *, top: int = 10, **options: Any
) -> list[OutputChoice]:
    """Returns the output distributions of a view.

    Args:
        view: The view.
        positions: The positions (or other rows), by default all.
        top: The number of candidates.

    Other keyword arguments are temperature, top_k, top_p and min_p, as in `generate`.

    Returns:
        One choice per position.

    >>> choices(model.look("To be, or"), [-1], temperature=0.8)[0].candidates
    """
    found = Predicted(view)
    rows = [found.row(one) for one in (range(found.shape[0]) if positions is None else positions)]
    turned = GenerationConfig(do_sample=True, **options)
    return choose(found, rows, found.logits(rows), [*map(found.actual, rows)], turned, top)


@torch.no_grad()
def stage_choice(
    view: View, stage: int, position: int, top: int = 10, tuned: TunedLens | None = None
) -> OutputChoice:
    """Returns the output distribution of one lens stage at a position.

    Args:
        view: The view.
        stage: The index of the stage.
        position: The position.
        top: The number of candidates.
        tuned: A tuned lens to use instead of the logit lens.

    Returns:
        The choice.
    """
    names = stage_names(view.model.spec)
    check_index(stage, len(names), "row")
    view.capture(names)
    stream = view.cache[names[stage]][:, position : position + 1]
    found = Predicted(view)
    if tuned is not None:
        stream = tuned.check(view.model, found.head.name).map(names[stage], stream)
    logits = view.model.readout(stream, found.head.name)[0]
    return choose(found, [position], logits, [found.actual(position)], GenerationConfig(), top)[0]


def choose(
    predicted: Predicted,
    rows: Sequence[int],
    logits: Tensor,  # [row, outcome]
    actual: Sequence[int | None],
    config: GenerationConfig,
    top: int,
) -> list[OutputChoice]:
    """Builds the choices of some rows from their logits and true outcomes."""
    scores = logits.float()
    logprobs = predicted.log_probs(scores)
    left = shaped(scores, config)
    probabilities = predicted.log_probs(left).exp()
    entropy = predicted.entropy(left)
    counts = left.isfinite().sum(-1)
    best = scores.topk(min(top, scores.shape[-1])).indices  # [row, rank]

    def candidate(row: int, token: int, rank: int) -> OutputCandidate:
        return OutputCandidate(
            token,
            predicted.text(token),
            float(scores[row, token]),
            float(logprobs[row, token]),
            float(probabilities[row, token]),
            rank,
        )

    found = []
    for row, (place, ids, true) in enumerate(zip(rows, best.tolist(), actual, strict=True)):
        real = None
        if true is not None:
            real = candidate(row, true, int((scores[row] > scores[row, true]).sum()))
        ranked = tuple(candidate(row, token, rank) for rank, token in enumerate(ids))
        found.append(OutputChoice(place, ranked, real, float(entropy[row]), int(counts[row])))
    return found
