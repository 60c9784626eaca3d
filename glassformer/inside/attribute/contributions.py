"""Direct logit attribution: a logit as the sum of the contributions of all components.

A component contributes through what it writes to the residual stream.

The attribution runs backward from the logit: through the head, the final norm, and any norms after
a component, each linearized at its values in this run (see `linearize.py`). It is therefore exact
for pre-norm and post-norm models alike, and the parts add up to the logit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from glassformer.core.heads import Head, pooling_positions
from glassformer.core.input_rules import text_ids
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside.attribute.backward_attribution import BackwardAttribution, Parts, needed
from glassformer.inside.attribute.linearize import exact, head_direction
from glassformer.inside.attribute.predictions import (
    default_position,
    head_with_outputs,
    output_id,
    output_text,
)
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.displayable import Displayable

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.inside.capture.view import View

LOOSE = 0.02  # relative error allowed for half precision


@dataclass(frozen=True)
class Contribution:
    """The contribution of one component.

    `kind` is token, position, segment, head, cross head, feed-forward, attention bias, ...; for a
    neuron, `head` is the neuron's index.
    """

    kind: str
    layer: int | None
    head: int | None
    value: float

    @property
    def name(self) -> str:
        where = "" if self.layer is None else f" of layer {self.layer}"
        return f"{self.kind}{'' if self.head is None else f' {self.head}'}{where}"


@dataclass(frozen=True)
class Contributions(Displayable):
    """The contributions to one logit, or with `versus` to the difference of two logits.

    Attributes:
        output: The token id or label index.
        text: The token or label as text.
        position: The position; None for a head that reads the whole text.
        logit: The logit, or the difference of logits.
        parts: The contributions, which add up to `logit`.
        versus: The text of the output whose logit is subtracted.
    """

    output: int
    text: str
    position: int | None
    logit: float
    parts: tuple[Contribution, ...]
    versus: str | None = None

    @property
    def total(self) -> float:
        return sum(part.value for part in self.parts)

    def top(self, count: int = 10) -> list[Contribution]:
        """Returns the contributions with the largest absolute values."""
        return sorted(self.parts, key=lambda part: -abs(part.value))[:count]

    def by_kind(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for part in self.parts:
            found[part.kind] = found.get(part.kind, 0.0) + part.value
        return found

    def by_layer(self) -> dict[int | None, float]:
        """Returns the sum for each layer; None collects the parts before and after the layers."""
        found: dict[int | None, float] = {}
        for part in self.parts:
            found[part.layer] = found.get(part.layer, 0.0) + part.value
        return found

    @property
    def heads(self) -> NamedTensor:
        """The contributions of self-attention heads, [layer, head]; 0 for missing heads."""
        return self._of("head")

    @property
    def cross_heads(self) -> NamedTensor:
        return self._of("cross head")

    @property
    def neurons(self) -> NamedTensor:
        """The contributions of neurons, [layer, neuron]; 0 in layers that were not requested."""
        return self._of("neuron")

    def _of(self, kind: str) -> NamedTensor:
        found = [part for part in self.parts if part.kind == kind]
        if not found:
            raise ConfigError(
                "Only the layers given as contributions(neurons=...) have contributions of neurons."
                if kind == "neuron"
                else f"There is no {kind} in this model."
            )
        layers = 1 + max(part.layer or 0 for part in found)
        heads = 1 + max(part.head or 0 for part in found)
        table = torch.zeros(layers, heads)
        for part in found:
            table[part.layer or 0, part.head or 0] = part.value
        axis = "neuron" if kind == "neuron" else "head"
        labels = {"layer": list(map(str, range(layers))), axis: list(map(str, range(heads)))}
        return NamedTensor(table, ("layer", axis), labels, f"contributions to {self.text!r}")

    def __repr__(self) -> str:
        best = ", ".join(f"{part.name} {part.value:+.2f}" for part in self.top(3))
        return f"<logit {self.logit:.3f} of {self.text!r}: {best}, ...>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.bars import contributions_html

        return contributions_html(self)

    @property
    def heading(self) -> str:
        return f"The logit of {self.text!r}"


@torch.no_grad()
def contributions(
    view: View,
    token: int | str | None = None,
    *,
    position: int | None = None,
    versus: int | str | None = None,
    head: str | None = None,
    neurons: int | Sequence[int] = (),
) -> Contributions:
    """Decomposes a logit into the contributions of all components.

    Args:
        view: The view.
        token: A token or label by index or name; None is the predicted one.
        position: The position, for heads that read each one. By default the last position of a
            decoder, or the first mask of an encoder.
        versus: Another output; the difference of the two logits is decomposed.
        head: The head, by default that of the view.
        neurons: Layers whose feed-forward part is split by neuron.

    Returns:
        The contributions.
    """
    spec = head_with_outputs(view.model, head or view.head)
    if spec.num_weighted_layers or spec.pixel_shuffle:
        raise UnsupportedError(
            f"The head {spec.name!r} reads inner layers or predicts an image, so its output is "
            "not a sum over the residual stream."
        )
    at = default_position(view, position) if spec.pooling == "each" else None
    depth = len(view.spec.order)
    layers = [neurons] if isinstance(neurons, int) else neurons
    taken = {layer % depth for layer in layers if view.name(layer, "ffn_post")}
    view.run_with_cache(needed(view, taken))
    logits = view.output.head_outputs[spec.name][0].float()
    logits = logits.unsqueeze(-1) if spec.scalar or spec.multiple_choice else logits
    logits = logits if at is None else logits[at]
    output = output_id(view, spec, token, logits)
    parts = _parts(view, spec.name, at, output, logits, taken)
    logit, text = float(logits[output]), output_text(view, spec, output)
    other = None
    if versus is not None:
        against = output_id(view, spec, versus, logits)
        other = output_text(view, spec, against)
        logit -= float(logits[against])
        for key, value in _parts(view, spec.name, at, against, logits, taken).items():
            parts[key] = parts.get(key, 0.0) - value
    found = tuple(Contribution(*key, value) for key, value in parts.items())
    whole = Contributions(output, text, at, logit, found, other)
    if abs(whole.total - logit) > LOOSE * (1 + abs(logit)):
        raise UnsupportedError(
            f"The contributions add up to {whole.total:.3f}, but the logit is {logit:.3f}: an "
            "active adapter is not linear; turn it off."
        )
    return whole


def _parts(
    view: View, name: str, at: int | None, output: int, logits: Tensor, neurons: Collection[int]
) -> Parts:
    model = view.model
    module = model.heads[name]
    assert isinstance(module, Head)
    hidden = exact(view.cache[f"{view.stack}.final"][0])  # [position, width]
    if at is not None:
        rows, read = torch.tensor([at], device=hidden.device), hidden[at][None]
        u, added = head_direction(module, read, output)
    else:
        text = text_ids(view.model_inputs.inputs).reshape(1, -1)
        text = text if len(hidden) == text.shape[1] else text[:, : len(hidden)]
        where = pooling_positions(module.spec, hidden[None], text, None, view.model.spec.tokens)
        assert where is not None
        with torch.enable_grad():  # picking is linear: autograd computes its transpose
            leaf = hidden[None].clone().requires_grad_()
            picked = module.pool(leaf, where)
        direction, added = head_direction(module, exact(picked), output)
        (u,) = torch.autograd.grad(picked, leaf, direction)
        rows = u[0].abs().sum(-1).nonzero()[:, 0]
        u = u[0][rows]
    walk = BackwardAttribution(view, rows, neurons)
    for kind, value in added.items():
        walk.add(kind, None, None, value)
    walk.back(u)
    if module.spec.after_question:  # the mask that excludes the question from the answers
        rest = float(logits[output]) - sum(walk.parts.values())
        walk.add("not an answer", None, None, torch.tensor(rest if abs(rest) > 1e5 else 0.0))
    return walk.parts
