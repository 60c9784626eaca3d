"""Gradient-based attribution of an output to the input tokens.

Gradient x input multiplies each token's embedding (with its position) by the gradient of the logit
with respect to it. Integrated gradients (Sundararajan et al., 2017) use the mean gradient along the
path from a baseline to the text, so that the attributions of all tokens add up to the difference of
the logits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from glassformer.core import ActivationCapture
from glassformer.core.audio_image_embedding import SignalEmbedding
from glassformer.core.model_output import ModelOutput
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside.attribute.predictions import (
    default_position,
    head_with_outputs,
    output_id,
    output_text,
)
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.displayable import Displayable
from glassformer.inside.intervene.editing import stacks_of

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View

AT_ONCE = 8  # points of the path computed in one batch
NEUTRAL = ("pad", "mask", "unk", "eos")  # default baseline tokens, in order of preference


@dataclass(frozen=True, eq=False)
class Saliency(Displayable):
    """The attribution of one logit to the input tokens.

    Attributes:
        kind: The method.
        output: The token id or label index.
        text: The token or label as text.
        position: The position; None for a head that reads the whole text.
        logit: The logit.
        values: One number per token of the last stack.
        source: One number per encoder token of an encoder-decoder model.
        difference: How far the logit is above that of the baseline.
        missing: How far the numbers are from adding up to `difference`.
    """

    kind: str
    output: int
    text: str
    position: int | None
    logit: float
    values: NamedTensor
    source: NamedTensor | None = None
    difference: float | None = None

    @property
    def total(self) -> float:
        more = 0.0 if self.source is None else float(self.source.array.sum())
        return float(self.values.array.sum()) + more

    @property
    def missing(self) -> float | None:
        return None if self.difference is None else self.difference - self.total

    def __repr__(self) -> str:
        words = self.values.labels["position"]
        best = self.values.array.abs().argsort(descending=True)[:3].tolist()
        largest = ", ".join(f"{words[i]!r} {float(self.values.array[i]):+.3f}" for i in best)
        return f"<{self.kind} of {self.text!r}: {largest}>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.bars import saliency_html

        return saliency_html(self)

    @property
    def heading(self) -> str:
        return f"{self.kind} of {self.text!r}"


@dataclass(frozen=True)
class AttributedOutput:
    """One output of a head at a position, whose logit can be computed for every row of a batch."""

    view: View
    head: str
    position: int | None
    output: int
    text: str
    logit: float

    @classmethod
    def of(
        cls, view: View, token: int | str | None, position: int | None, head: str | None
    ) -> AttributedOutput:
        """Selects the output of `token` (None: the predicted one) at a position of a head."""
        spec = head_with_outputs(view.model, head or view.head)
        at = default_position(view, position) if spec.pooling == "each" else None
        logits = view.output.head_outputs[spec.name][0].float()
        logits = logits.unsqueeze(-1) if spec.scalar or spec.multiple_choice else logits
        logits = logits if at is None else logits[at]
        output = output_id(view, spec, token, logits)
        return cls(
            view, spec.name, at, output, output_text(view, spec, output), float(logits[output])
        )

    def ask(self, embeddings: dict[str, Tensor]) -> Tensor:
        """Computes the logits, [row], with other embeddings, [row, position, width]."""
        rows = len(next(iter(embeddings.values())))
        inputs = {k: v.expand(rows, *v.shape[1:]) for k, v in self.view.model_inputs.inputs.items()}
        return self.of_output(self.view.run(Stand(embeddings), heads=(self.head,), **inputs))

    def of_output(self, out: ModelOutput) -> Tensor:
        """[row]: the logits of this output in a model output."""
        logits = out.head_outputs[self.head]
        if self.position is not None:
            logits = logits[:, self.position]
        return logits if logits.ndim == 1 else logits[:, self.output]


class Stand(ActivationCapture):
    """A hook that substitutes tensors by name and can also capture others."""

    def __init__(self, replacements: dict[str, Tensor], *names: str) -> None:
        super().__init__(*replacements, *names)
        self.replacements = replacements

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return super().__call__(name, self.replacements.get(name, value))


def gradient_x_input(
    view: View,
    token: int | str | None = None,
    *,
    position: int | None = None,
    head: str | None = None,
) -> Saliency:
    """Attributes a logit to the input tokens by gradient x input.

    Args:
        view: The view.
        token: A token or label by index or name; None is the predicted one.
        position: The position, for heads that read each one.
        head: The head, by default that of the view.

    Returns:
        The attribution.
    """
    question = AttributedOutput.of(view, token, position, head)
    read = _embeddings(view)
    slopes = _slopes(question, read)
    return _saliency(question, "gradient x input", {n: (read[n] * slopes[n])[0] for n in read})


def integrated_gradients(
    view: View,
    token: int | str | None = None,
    *,
    position: int | None = None,
    head: str | None = None,
    baseline: int | str | None = None,
    steps: int = 32,
    progress: Callable[[float], None] | None = None,
) -> Saliency:
    """Attributes a logit to the input tokens by integrated gradients.

    Args:
        view: The view.
        token: A token or label by index or name; None is the predicted one.
        position: The position, for heads that read each one.
        head: The head, by default that of the view.
        baseline: The baseline token by name or id, or "zero" for zero vectors. By default the
            padding token, else the mask, unknown or end token. Tokens added by the tokenizer are
            not replaced.
        steps: The number of points on the path, with Gauss-Legendre quadrature.
        progress: Called with the fraction done.

    Returns:
        The attribution.
    """
    if steps < 1:
        raise ConfigError(f"steps must be 1 or more, not {steps}.")
    question = AttributedOutput.of(view, token, position, head)
    read, base = _embeddings(view), _baseline(view, baseline)
    points, weights = np.polynomial.legendre.leggauss(steps)
    total = {name: torch.zeros_like(x[0]) for name, x in read.items()}
    for start in range(0, steps, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        for name, slope in _slopes(question, _between(base, read, (points[part] + 1) / 2)).items():
            share = torch.as_tensor(weights[part] / 2).to(slope)
            total[name] += torch.einsum("r,rpw->pw", share, slope)
        if progress is not None:
            progress(min(1.0, (start + AT_ONCE) / steps))
    with torch.no_grad():
        from_base = float(question.ask(base)[0])
    found = {name: total[name] * (read[name] - base[name])[0] for name in read}
    return _saliency(question, "integrated gradients", found, question.logit - from_base)


def _between(base: dict[str, Tensor], read: dict[str, Tensor], points: Any) -> dict[str, Tensor]:
    """The points on the path, [point, position, width]."""
    return {
        name: base[name] + torch.as_tensor(points).to(read[name])[:, None, None] * (x - base[name])
        for name, x in read.items()
    }


def _slopes(question: AttributedOutput, embeddings: dict[str, Tensor]) -> dict[str, Tensor]:
    with torch.enable_grad():
        leaves = {name: x.detach().requires_grad_() for name, x in embeddings.items()}
        logits = question.ask(leaves).sum()
        if not logits.requires_grad:
            raise UnsupportedError(
                "Quantized weights have no gradients; load the model without `quantize`."
            )
        slopes = torch.autograd.grad(logits, list(leaves.values()), allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if slope is None else slope
        for (name, leaf), slope in zip(leaves.items(), slopes, strict=True)
    }


def _names(view: View) -> list[str]:
    return [f"{n}.embed" for n in ("encoder", "decoder") if getattr(view.model, n) is not None]


def _embeddings(view: View) -> dict[str, Tensor]:
    view.capture(_names(view))
    return {name: view.cache[name] for name in _names(view)}


@torch.no_grad()
def _baseline(view: View, wanted: int | str | None) -> dict[str, Tensor]:
    read = _embeddings(view)
    signals = any(isinstance(stack.embed, SignalEmbedding) for stack in stacks_of(view.model))
    if wanted == "zero" or signals or "memory_tokens" in view.model_inputs.inputs:
        return {name: torch.zeros_like(x) for name, x in read.items()}
    id = _neutral(view) if wanted is None else wanted
    if isinstance(id, str):
        known = view.model.tokenizer
        if known is None:
            raise ConfigError("The model has no tokenizer; give the baseline as a token id.")
        id = known.id(id)
    first = view.model_inputs.encoder or view.model_inputs.last
    sides = {"input_ids": first, "decoder_input_ids": view.model_inputs.last}
    inputs: dict[str, Tensor] = {}
    for key, tokens in sides.items():
        if key in view.model_inputs.inputs:
            ids = view.model_inputs.inputs[key]
            special_tokens = torch.tensor([[token.special for token in tokens]], device=ids.device)
            inputs[key] = (
                torch.where(special_tokens, ids, id) if special_tokens.shape == ids.shape else ids
            )
    capture = ActivationCapture(*_names(view))
    view.run(capture, **inputs)
    return {name: capture[name] for name in _names(view)}


def _neutral(view: View) -> int:
    known, spec = view.model.tokenizer, view.model.spec.tokens
    roles = {} if known is None else known.special
    order = [*(roles.get(role) for role in NEUTRAL), spec.pad, spec.eos, 0]
    return next(id for id in order if id is not None)


def _saliency(
    question: AttributedOutput, kind: str, found: dict[str, Tensor], difference: float | None = None
) -> Saliency:
    named = {}
    for name, each in found.items():
        values = each.float().sum(-1).detach()  # [position]
        stack = name.partition(".")[0]
        words = [token.text for token in getattr(question.view.model_inputs, stack)]
        words = [*["·"] * (len(values) - len(words)), *words][-len(values) :]
        named[stack] = NamedTensor(values, ("position",), {"position": words}, f"{kind} ({stack})")
    own = question.view.stack
    source = named.get("encoder") if own == "decoder" else None
    place = (question.output, question.text, question.position, question.logit)
    return Saliency(kind, *place, named[own], source, difference)
