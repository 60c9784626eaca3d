"""The effects of changed input tokens on an output, and their agreement with an estimate."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.inside.attribute.gradients import Saliency
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.displayable import Displayable


@dataclass(frozen=True)
class TextChange:
    """One changed text and its output.

    Attributes:
        stack: The stack whose token is changed.
        position: The position of the token.
        replacement: The token id in its place; None if the token is left out.
        text: The replacement as text.
        logit: The logit of the output for the changed text.
        probability: Its probability.
        best: The most probable output for the changed text.
        best_probability: Its probability.
    """

    stack: str
    position: int
    replacement: int | None
    text: str | None
    logit: float
    probability: float
    best: str
    best_probability: float


@dataclass(frozen=True, eq=False)
class InputEffects(Displayable):
    """How much the logit of an output falls when a token is changed.

    Attributes:
        kind: "occlusion" or "swap".
        output: The token id or label index.
        text: The token or label as text.
        position: The position; None for a head that reads the whole text.
        logit: The logit for the text as it is.
        probability: Its probability.
        changes: All changed texts.
        values: The fall of the logit per token of the last stack, the mean over its replacements;
            NaN for tokens that were not changed.
        source: The same per encoder token of an encoder-decoder model.
    """

    kind: str
    output: int
    text: str
    position: int | None
    logit: float
    probability: float
    changes: tuple[TextChange, ...]
    values: NamedTensor
    source: NamedTensor | None = None

    def agreement(
        self, estimate: Saliency | NamedTensor, source: NamedTensor | None = None
    ) -> float:
        """Returns Spearman's rank correlation of an estimate with these effects.

        Args:
            estimate: A saliency of the same output, or one number per token of the last stack.
            source: With the latter, one number per encoder token of an encoder-decoder model.

        Returns:
            The correlation over all changed tokens, from -1 to 1; NaN if there are fewer than two.
        """
        own = estimate.values if isinstance(estimate, Saliency) else estimate
        source = estimate.source if isinstance(estimate, Saliency) else source
        pairs = [(self.values, own)]
        if self.source is not None and source is not None:
            pairs.append((self.source, source))
        ours = torch.cat([own.array.double() for own, _ in pairs])
        # an estimate may also have numbers for tokens that an adapter prepends
        theirs = torch.cat([x.array[-len(own.array) :].double() for own, x in pairs]).cpu()
        known = ~ours.isnan()
        return rank_correlation(ours[known], theirs[known])

    def __repr__(self) -> str:
        sides = (self.values,) if self.source is None else (self.source, self.values)
        falls = [
            (float(fall), word)
            for side in sides
            for fall, word in zip(side.array, side.labels["position"], strict=True)
            if not fall.isnan()
        ]
        strongest = sorted(falls, key=lambda one: -abs(one[0]))[:3]
        return (
            f"<{self.kind} for {self.text!r}: "
            + ", ".join(f"{word!r} {fall:+.3f}" for fall, word in strongest)
            + ">"
        )

    def _repr_html_(self) -> str:
        from glassformer.inside.show.bars import effects_html

        return effects_html(self)

    @property
    def heading(self) -> str:
        return f"{self.kind} for {self.text!r}"


def rank_correlation(a: Tensor, b: Tensor) -> float:
    """Returns Spearman's rank correlation of two rows of numbers; equal numbers share a rank."""
    if len(a) < 2:
        return float("nan")
    return float(torch.corrcoef(torch.stack((_ranks(a), _ranks(b))))[0, 1])


def _ranks(numbers: Tensor) -> Tensor:
    below = (numbers[:, None] > numbers).double().sum(-1)
    return below + ((numbers[:, None] == numbers).double().sum(-1) - 1) / 2
