"""Heads: map the last hidden states to logits, or to one vector per text."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.activation import ACTIVATIONS
from glassformer.core.adaptive_softmax import AdaptiveSoftmax
from glassformer.core.input_rules import last_slots
from glassformer.core.linear import Linear
from glassformer.core.norm import make_norm
from glassformer.errors import InputError
from glassformer.spec import HeadSpec, SpecialTokens, TransformSpec


class Transform(nn.Module):
    """Dense layer, activation and norm, optionally with a residual connection."""

    def __init__(self, width: int, spec: TransformSpec) -> None:
        super().__init__()
        self.dense = Linear(width, spec.width, bias=spec.bias)
        self.activation = ACTIVATIONS[spec.activation]
        self.back = Linear(spec.width, width, bias=spec.bias) if spec.residual else None
        self.width = width if spec.residual else spec.width
        self.norm = None if spec.norm is None else make_norm(self.width, spec.norm)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.activation(self.dense(x))
        if self.back is not None:
            y = x + self.back(y)
        return y if self.norm is None else self.norm(y)


class Projection(Linear):
    """The output layer of a head. A fixed bias is part of the model but is never trained."""

    def __init__(self, width: int, spec: HeadSpec) -> None:
        assert spec.num_outputs is not None
        super().__init__(width, spec.num_outputs, bias=spec.bias == "learned")
        if spec.bias == "fixed":
            del self.bias
            self.register_buffer("bias", torch.zeros(spec.num_outputs))


class Head(nn.Module):
    """Selects positions of the hidden states, transforms and projects them."""

    def __init__(self, width: int, spec: HeadSpec) -> None:
        super().__init__()
        self.spec = spec
        width = 3 * width if spec.pooling == "concat" else width
        if spec.norm is not None:
            self.norm = make_norm(width, spec.norm)
        if spec.transform is not None:
            self.transform = Transform(width, spec.transform)
            width = self.transform.width
        if spec.num_outputs is not None:
            self.out = (
                Projection(width, spec)
                if spec.adaptive is None
                else AdaptiveSoftmax(width, spec.num_outputs, spec.adaptive)
            )
        if spec.num_weighted_layers:
            self.mix = nn.Parameter(torch.zeros(spec.num_weighted_layers))
        self.activation = ACTIVATIONS[spec.activation]

    def select_layer(self, hidden: Tensor, states: list[Tensor]) -> Tensor:
        """Returns the hidden state that the head reads, [batch, position, width].

        This is the last one, the output of an inner layer, or a learned mix of all. `states` are
        the embedding and the outputs of all layers.
        """
        if self.spec.depth is not None:
            return states[self.spec.depth + 1]
        if not self.spec.num_weighted_layers:
            return hidden
        every = torch.stack((*states[:-1], hidden))
        return torch.einsum("l,lbpw->bpw", self.mix.softmax(-1), every)

    def forward(self, hidden: Tensor, where: Tensor | None) -> Tensor:
        """Computes the head's output. `where` is the result of `pooling_positions`."""
        x = self.features(hidden, where)
        if self.spec.num_outputs is not None:
            x = self.out(x)
        if self.spec.softcap is not None:
            x = torch.tanh(x / self.spec.softcap) * self.spec.softcap
        if self.spec.scalar:
            x = x.squeeze(-1)
        return self.activation(x)

    def features(self, hidden: Tensor, where: Tensor | None) -> Tensor:
        """Returns the output layer's input, which a loss may project a few positions at a time."""
        x = hidden
        if where is not None:
            x = self.pool(x, where)
        if self.spec.norm is not None:
            x = self.norm(x)
        if self.spec.scale != 1.0:
            x = x * self.spec.scale
        if self.spec.transform is not None:
            x = self.transform(F.dropout(x, self.spec.dropout_in, self.training))
        if self.spec.num_outputs is not None:
            x = F.dropout(x, self.spec.dropout, self.training)
        return x

    def pool(self, x: Tensor, where: Tensor) -> Tensor:
        """Reduces [batch, position, width] to [batch, width], or [batch, 3 * width] (concat)."""
        if where.is_floating_point():
            return (where @ x)[:, 0]
        if where.dtype != torch.bool:
            return x.gather(1, _wide(where, x))[:, 0]
        some = where.any(-1, keepdim=True)  # a text may have nothing but padding
        largest = x.masked_fill(~where[..., None], float("-inf")).amax(1)
        largest = largest.where(some, 0.0)
        if self.spec.pooling == "max":
            return largest
        last = x.gather(1, _wide(last_slots(where), x))[:, 0]
        return torch.cat((last, largest, (_shares(where, x.dtype) @ x)[:, 0]), -1)


def _shares(real: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the weights that average real positions, [batch, 1, position]."""
    weights = real.to(dtype)
    return (weights / weights.sum(-1, keepdim=True).clamp_min(1))[:, None]


def _wide(where: Tensor, x: Tensor) -> Tensor:
    return where[:, None, None].expand(-1, 1, x.shape[-1])


def pooling_positions(
    head: HeadSpec, hidden: Tensor, text: Tensor, mask: Tensor | None, special: SpecialTokens
) -> Tensor | None:
    """Returns the positions that a head reads.

    Returns:
        A slot per row [batch]; weights of [batch, 1, position]; for "max" and "concat" the mask of
        real positions; or None for every position.
    """
    if head.pooling == "each":
        return None
    if mask is None and (text.is_floating_point() or head.pooling == "first"):
        # audio and images have no padding, and the references read the first slot of ids
        mask = torch.ones(hidden.shape[:2], dtype=torch.bool, device=text.device)
    if mask is None:
        mask = text.ne(-1) if special.pad is None else text.ne(special.pad)
    if head.pooling == "first":
        return mask.int().argmax(-1)
    if head.pooling == "last":
        return last_slots(mask)
    if head.pooling == "mean":
        return _shares(mask, hidden.dtype)
    if head.pooling in ("max", "concat"):
        return mask
    ends = text.eq(-1 if special.eos is None else special.eos) & mask
    if not torch.compiler.is_compiling() and not bool(ends.any(-1).all()):
        raise InputError(
            f"This head reads the end-of-text token (id {special.eos}), and a text has none; "
            "end every text with it."
        )
    return last_slots(ends)
