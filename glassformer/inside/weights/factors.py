"""The weight matrices of heads and feed-forward layers, as applied to the residual stream.

A head has the matrices Q, K, V and O: QK = Q^T K determines which tokens attend to which, OV = O V
what is copied (Elhage et al., 2021). The linear part of a norm is folded into the matrix after it:
its scale, and for a LayerNorm the removal of the mean, so that nothing is read or written along the
mean direction. Biases are left out, and so is everything that depends on token positions (rotary
angles, distances).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.core.attention.cross_attention import CrossAttention
from glassformer.core.attention.self_attention import SelfAttention
from glassformer.core.block import Block
from glassformer.core.norm import BatchNorm, LayerNorm, RMSNorm
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside.capture.named_tensor import check_index
from glassformer.tasks.model_protocol import TaskModel


@dataclass(frozen=True)
class Factors:
    """The matrices of one layer's heads.

    q, k and v are [head, dim, width], o is [head, width, dim]; keys and values shared by several
    heads are repeated for each.
    """

    layer: int
    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor


def stack_of(model: TaskModel, stack: str = "") -> Stack:
    """Returns a stack by name, by default the one whose output the heads read."""
    name = stack or ("encoder" if model.spec.decoder is None else "decoder")
    found = getattr(model, name, None) if name in ("encoder", "decoder") else None
    if not isinstance(found, Stack):
        raise UnsupportedError(f"{model.architecture} has no stack {name!r}.")
    return found


def block_of(model: TaskModel, layer: int, stack: str = "") -> Block:
    """Returns the transformer block of a layer; raises if the layer is of another kind."""
    module = stack_of(model, stack)
    check_index(layer, len(module.spec.order), "layer")
    block = module.blocks[module.spec.order[layer]]
    if not isinstance(block, Block):
        raise ConfigError(f"Layer {layer} is not a block of attention and feed-forward.")
    return block


@torch.no_grad()
def factors(model: TaskModel, layer: int, stack: str = "", cross: bool = False) -> Factors:
    """Returns the matrices of a layer's heads.

    Args:
        model: The model.
        layer: The layer.
        stack: "encoder" or "decoder", by default the last stack.
        cross: Whether to return those of cross-attention.

    Returns:
        The matrices.
    """
    block = block_of(model, layer, stack)
    spec = block.spec.cross if cross else block.spec.attention
    if spec is None:
        raise UnsupportedError(f"Layer {layer} has no cross-attention.")
    if spec.compression_factor is not None:
        raise UnsupportedError(
            "Compressed keys represent several tokens, so there is no circuit for a single one."
        )
    module: SelfAttention | CrossAttention = block.cross if cross else block.attention
    part, dim = "cross" if cross else "attention", spec.head_dim
    if isinstance(module, CrossAttention):
        q, (k, v) = module.q.weight, torch.split(module.kv.weight, list(module.kv.parts))
    else:
        q, k, v = torch.split(module.qkv.weight, list(module.qkv.parts))
        k, v = fold_norm_before(block, part, k), fold_norm_before(block, part, v)
    q = fold_norm_before(block, part, q)
    group = spec.heads // spec.key_heads
    q, k, v = (x.float().view(-1, dim, x.shape[1]) for x in (q, k, v))
    if spec.qk_norm is not None:
        q, k = (x * scale_of(norm)[:, None] for x, norm in ((q, module.q_norm), (k, module.k_norm)))
    k, v = (x.repeat_interleave(group, 0) for x in (k, v))
    o = fold_norm_after(block, part, module.out.weight)
    return Factors(layer, q, k, v, o.view(len(o), -1, dim).transpose(0, 1))


def all_factors(model: TaskModel, stack: str = "") -> Iterator[Factors]:
    """Yields the matrices of all layers whose attention has one key per token."""
    module = stack_of(model, stack)
    for layer, index in enumerate(module.spec.order):
        block = module.blocks[index]
        if isinstance(block, Block) and block.spec.attention.compression_factor is None:
            yield factors(model, layer, stack)


def fold_norm_before(block: Block, part: str, weight: Tensor) -> Tensor:
    """Returns a matrix of [out, width] with the norm before the component, if any, folded in."""
    if block.spec.placement == "post":
        return weight.float()
    if part == "ffn" and block.spec.residual == "parallel_shared_norm":
        part = "attention"
    return straight(getattr(block, f"{part}_norm"), weight.float(), back=True)


def fold_norm_after(block: Block, part: str, weight: Tensor) -> Tensor:
    """Returns a matrix of [width, in] with the linear part of the norm after it folded in.

    If all norms of the residual stream subtract the mean, the mean is removed.
    """
    weight = weight.float()
    if block.spec.placement == "sandwich":
        return straight(getattr(block, f"{part}_norm_out"), weight.T).T
    return weight - weight.mean(0) if block.spec.norm.kind == "layer" else weight


def straight(norm: nn.Module, x: Tensor, back: bool = False) -> Tensor:
    """Applies the linear part of a norm to rows of [..., width].

    Args:
        norm: The norm.
        x: The rows.
        back: Whether the rows belong to a matrix applied after the norm.

    Returns:
        The rows.
    """
    if isinstance(norm, LayerNorm) and not back:
        x = x - x.mean(-1, keepdim=True)
    if not isinstance(norm, nn.Identity):
        x = x * scale_of(norm)
    if isinstance(norm, LayerNorm) and back:
        x = x - x.mean(-1, keepdim=True)
    return x


def scale_of(norm: nn.Module) -> Tensor:
    """Returns the scale of a norm."""
    if isinstance(norm, BatchNorm):
        inner = norm.norm
        assert inner.running_var is not None
        return inner.weight.float() * torch.rsqrt(inner.running_var.float() + inner.eps)
    assert isinstance(norm, LayerNorm | RMSNorm)
    weight = norm.weight.float()
    return weight + 1.0 if isinstance(norm, RMSNorm) and norm.unit_offset else weight
