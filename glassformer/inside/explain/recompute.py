"""Recomputation of intermediate tensors that have no hook point, by the network's own modules.

With them, every step from a text to its logits can be inspected.

| name                           | axes                | content                                  |
|--------------------------------|---------------------|------------------------------------------|
| embed.token, .position, .type  | position, width     | the output of each embedding table       |
| embed.sum, .normed             | position, width     | their sum, and the sum after the norm    |
| blocks.i.attention_in, .ffn_in | position, width     | the input of a component                 |
| blocks.i.q_raw, .k_raw         | head, position, dim | before rotary position embedding         |
| blocks.i.dot, .scaled, .capped | head, query, key    | q k^T; scaled; after the softcap         |
| blocks.i.bias                  | head, query, key    | position bias, 0 where masked            |
| blocks.i.mask                  | head, query, key    | 1 where the key is masked                |
| blocks.i.joined                | position, width     | the heads, concatenated                  |
| blocks.i.ffn_up                | position, neuron    | the up-projection that the gate scales   |
| blocks.i.cross.*               | as above            | the same of cross-attention (`cross.in`) |
| blocks.i.resid_cross           | position, width     | residual stream after cross-attention    |
| logits, probabilities          | see `predictions.py` | the output of the head                   |

Every parameter is also available under its own name, with the axes out and in.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from glassformer.core.attention.cross_attention import CrossAttention
from glassformer.core.attention.self_attention import SelfAttention, join_heads, split_heads
from glassformer.core.block import Block, PostNormBlock, SandwichBlock
from glassformer.core.embedding import Embedding
from glassformer.core.pass_context import count_positions
from glassformer.errors import UnsupportedError
from glassformer.inside.attribute.predictions import Predicted
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.capture.names import Axes, full_name, names_of
from glassformer.spec import AttentionSpec, RotarySpec

if TYPE_CHECKING:
    from glassformer.inside.capture.view import View

STREAM: Axes = ("position", "width")
SQUARE: Axes = ("head", "query", "key")
NAME = re.compile(r"(?P<stack>encoder|decoder)\.(?:blocks\.(?P<layer>\d+)\.)?(?P<what>[\w.]+)")


@torch.no_grad()
def array(view: View, name: str) -> NamedTensor:
    """Returns an intermediate tensor by name: a hook point, or one of the table above."""
    if name in ("logits", "probabilities"):
        return _ending(view, name)
    parameter = parameters(view).get(name)
    if parameter is not None:
        axes = ("out", "in")[-parameter.ndim :] if parameter.ndim < 3 else _numbered(parameter)
        return NamedTensor(parameter.detach(), axes, {}, name)
    whole = full_name(view.model.spec, name)
    found = NAME.fullmatch(whole)
    if whole in names_of(view.model.spec) or found is None:
        return view.tap(whole)
    stack, layer, what = found["stack"], found["layer"], found["what"]
    if layer is None:
        tables = embedded(view, stack)
        if what in tables:
            return NamedTensor(tables[what], STREAM, {}, whole)
    else:
        place = layer_of(view, stack, int(layer))
        if place is not None and what in DERIVED:
            axes, make = DERIVED[what]
            return NamedTensor(make(place)[0], axes, {}, whole)
    return view.tap(whole)  # raises the error


def parameters(view: View) -> dict[str, Tensor]:
    return dict(view.model.named_parameters(remove_duplicate=False))


def _numbered(tensor: Tensor) -> Axes:
    return tuple(f"axis {number}" for number in range(tensor.ndim))


def _ending(view: View, name: str) -> NamedTensor:
    """The logits or probabilities, one row per prediction."""
    predicted = Predicted(view)
    logits = predicted.logits()
    array = logits if name == "logits" else predicted.log_probs(logits).exp()
    words = {"position": [token.text for token in view.tokens], "label": predicted.by.labels}
    labels = {axis: words[axis] for axis in predicted.axes if axis in words}
    return NamedTensor(array, predicted.axes, labels, name)


@dataclass(frozen=True)
class Layer:
    """A transformer block at one depth of a view's stack; its tensors are [1, ...]."""

    view: View
    stack: str
    depth: int
    block: Block

    def tap(self, name: str) -> Tensor:
        full = f"{self.stack}.blocks.{self.depth}.{name}"
        self.view.capture([full])
        return self.view.cache[full]

    def attention(self, scope: str = "") -> AttentionSpec:
        spec = self.block.spec.cross if scope else self.block.spec.attention
        if spec is None:
            raise UnsupportedError(
                f"Layer {self.depth} of the {self.stack} has no cross-attention."
            )
        return spec

    def module(self, scope: str = "") -> SelfAttention | CrossAttention:
        return self.block.cross if scope else self.block.attention


def layer_of(view: View, stack: str, depth: int) -> Layer | None:
    """Returns the layer, or None if it is not a transformer block."""
    module = getattr(view.model, stack)
    if module is None or depth >= len(module.spec.order):
        return None
    block = module.blocks[module.spec.order[depth]]
    return Layer(view, stack, depth, block) if isinstance(block, Block) else None


def attention_in(at: Layer) -> Tensor:
    return part_input(at, at.block.attention_norm, at.tap("resid_pre"))


def cross_in(at: Layer) -> Tensor:
    return part_input(at, at.block.cross_norm, at.tap("resid_mid"))


def part_input(at: Layer, norm: nn.Module, x: Tensor) -> Tensor:
    """Returns the input of a part of the block: normed, unless the norm is after the sum."""
    return x if isinstance(at.block, PostNormBlock) else norm(x)


def resid_cross(at: Layer) -> Tensor:
    """Returns the residual stream after cross-attention."""
    block, x, change = at.block, at.tap("resid_mid"), at.tap("cross.attn_out")
    if isinstance(block, SandwichBlock):
        change = block.cross_norm_out(change)
    total: Tensor = x + change
    return block.cross_norm(total) if isinstance(block, PostNormBlock) else total


def has_cross(at: Layer) -> bool:
    """Whether cross-attention ran in this pass."""
    return at.block.spec.cross is not None and at.view.model.encoder is not None


def ffn_in(at: Layer) -> Tensor:
    spec = at.block.spec
    if spec.residual == "serial":
        x = resid_cross(at) if has_cross(at) else at.tap("resid_mid")
        return part_input(at, at.block.ffn_norm, x)
    norm = at.block.ffn_norm if spec.residual == "parallel" else at.block.attention_norm
    out: Tensor = norm(at.tap("resid_pre"))
    return out


def ffn_up(at: Layer) -> Tensor:
    up: Tensor = at.block.ffn.up(ffn_in(at))
    return up.chunk(2, -1)[1] if at.block.spec.ffn.gated else up


def raw(number: int) -> Callable[[Layer], Tensor]:
    """Returns a function that recomputes queries (0) or keys (1) before rotary position embedding.

    A query-key norm is applied if there is one.
    """

    def make(at: Layer) -> Tensor:
        attention = at.block.attention
        part = attention.qkv(attention_in(at)).split(attention.qkv.parts, -1)[number]
        x = split_heads(part, attention.spec.head_dim)
        if attention.spec.qk_norm is None:
            return x
        out: Tensor = (attention.k_norm if number else attention.q_norm)(x)
        return out

    return make


def dot(scope: str) -> Callable[[Layer], Tensor]:
    def make(at: Layer) -> Tensor:
        if at.attention(scope).score != "dot":
            raise UnsupportedError(
                "This attention scores each pair with a small network, not with a product of "
                "queries and keys."
            )
        keys = at.module(scope).attend.repeat(at.tap(f"{scope}k"))
        return at.tap(f"{scope}q") @ keys.transpose(-1, -2)

    return make


def scaled(scope: str) -> Callable[[Layer], Tensor]:
    return lambda at: dot(scope)(at) * at.module(scope).attend.scale


def capped(scope: str) -> Callable[[Layer], Tensor]:
    def make(at: Layer) -> Tensor:
        cap, x = at.attention(scope).softcap, scaled(scope)(at)
        return x if cap is None else torch.tanh(x / cap) * cap

    return make


def mask(scope: str) -> Callable[[Layer], Tensor]:
    def make(at: Layer) -> Tensor:
        scores = at.tap(f"{scope}scores")
        return scores.eq(torch.finfo(scores.dtype).min).to(scores.dtype)

    return make


def bias(scope: str) -> Callable[[Layer], Tensor]:
    def make(at: Layer) -> Tensor:
        added = at.tap(f"{scope}scores") - capped(scope)(at)
        return added.masked_fill(mask(scope)(at).bool(), 0.0)

    return make


def concatenated_heads(scope: str) -> Callable[[Layer], Tensor]:
    return lambda at: join_heads(at.tap(f"{scope}z"))


def of_attention(scope: str) -> dict[str, tuple[Axes, Callable[[Layer], Tensor]]]:
    return {
        f"{scope}dot": (SQUARE, dot(scope)),
        f"{scope}scaled": (SQUARE, scaled(scope)),
        f"{scope}capped": (SQUARE, capped(scope)),
        f"{scope}mask": (SQUARE, mask(scope)),
        f"{scope}bias": (SQUARE, bias(scope)),
        f"{scope}joined": (STREAM, concatenated_heads(scope)),
    }


DERIVED: dict[str, tuple[Axes, Callable[[Layer], Tensor]]] = {
    "attention_in": (STREAM, attention_in),
    "q_raw": (("head", "position", "dim"), raw(0)),
    "k_raw": (("key head", "key", "dim"), raw(1)),
    **of_attention(""),
    "cross.in": (STREAM, cross_in),
    **of_attention("cross."),
    "resid_cross": (STREAM, resid_cross),
    "ffn_in": (STREAM, ffn_in),
    "ffn_up": (("position", "neuron"), ffn_up),
}


def rotary_of(at: Layer) -> RotarySpec | None:
    """Returns the rotary position embedding of a layer, if it has one."""
    position = at.block.spec.position
    return position if isinstance(position, RotarySpec) else None


def embedded(view: View, stack: str) -> dict[str, Tensor]:
    """Returns the output of each embedding table of a stack, their sum and its norm.

    Each is [position, width].
    """
    module = getattr(view.model, stack)
    embed = None if module is None else module.embed
    if not isinstance(embed, Embedding) or embed.spec.bag is not None:
        return {}
    spec, device = embed.spec, next(embed.parameters()).device
    tokens = getattr(view.model_inputs, stack)
    ids = torch.tensor([[token.id for token in tokens]], device=device)
    x = embed.token(ids) * spec.scale
    if spec.embedding_size is not None and spec.project == "token":
        x = embed.project(x)
    found = {"embed.token": x[0]}
    if spec.position is not None:
        pad = spec.position.padding_idx
        real = None if pad is None else ids.ne(pad)
        found["embed.position"] = embed.position(count_positions(real, len(tokens), device))[0]
    if spec.segments:
        segments = torch.tensor([token.segment for token in tokens], device=device)
        found["embed.type"] = embed.segment(segments)
    found["embed.sum"] = sum(found.values(), torch.zeros((), device=device))
    if spec.norm is not None:
        found["embed.normed"] = embed.norm(found["embed.sum"])
    return found
