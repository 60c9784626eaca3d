"""The cost of quantization: the perplexity of a text before and after it."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.generate import Score
from glassformer.generate.prompt import Prompt
from glassformer.model import Model


@dataclass(frozen=True)
class QuantizationCost:
    """Scores of a text before and after the weights were quantized."""

    kind: str
    before: Score
    after: Score

    @property
    def growth(self) -> float:
        """Relative increase of the perplexity: 0.01 is one percent."""
        return self.after.perplexity / self.before.perplexity - 1

    def __str__(self) -> str:
        before, after = self.before.perplexity, self.after.perplexity
        return f"{self.kind}: perplexity {before:.4f} -> {after:.4f} ({self.growth:+.2%})"


def quantization_cost(
    model: Model,
    kind: str,
    text: Prompt,
    target: Prompt | None = None,
    *,
    window: int | None = None,
    stride: int | None = None,
) -> QuantizationCost:
    """Quantizes a model in place, and measures how much worse it predicts a text afterward.

    Args:
        model: The model.
        kind: "int8" or "int4".
        text: As in `Model.score`, like the further arguments.

    Returns:
        The scores of the text before and after quantization.

    >>> print(quantization_cost(gf.load("shakespeare"), "int4", "To be, or not to be"))
    """
    before = model.score(text, target, window=window, stride=stride)
    after = model.quantize(kind).score(text, target, window=window, stride=stride)
    return QuantizationCost(kind, before, after)
