"""The matrices of heads and feed-forward layers, as the stream meets them.

A head asks by Q, is asked by K, carries by V and writes by O: QK = Q^T K says who looks at whom, OV
= O V what is carried over (Elhage et al., 2021). What is linear in a norm stands in the matrix
behind it: its scale, and that a LayerNorm takes the mean away, so that nothing is read or written
along it. Biases are left out, and what depends on where tokens stand (a rotary angle, a distance).
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
from glassformer.errors import GlassformerError
from glassformer.inside.capture.named_tensor import check_index
from glassformer.tasks.model_protocol import TaskModel


@dataclass(frozen=True)
class Factors:
    """Of one layer's heads: q, k, v of [head, dim, width], and o of [head, width, dim]; each head
    has the keys and values that it reads, shared or not."""

    layer: int
    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor


def stack_of(model: TaskModel, stack: str = "") -> Stack:
    """By its name; the one whose output the heads read by default."""
    name = stack or ("encoder" if model.spec.decoder is None else "decoder")
    found = getattr(model.net, name, None) if name in ("encoder", "decoder") else None
    if not isinstance(found, Stack):
        raise GlassformerError(f"{model.architecture} has no stack {name!r}.")
    return found


def block_of(model: TaskModel, layer: int, stack: str = "") -> Block:
    module = stack_of(model, stack)
    check_index(layer, len(module.spec.order), "layer")
    block = module.blocks[module.spec.order[layer]]
    if not isinstance(block, Block):
        raise GlassformerError(f"Layer {layer} is no block of attention and feed-forward.")
    return block


@torch.no_grad()
def factors(model: TaskModel, layer: int, stack: str = "", cross: bool = False) -> Factors:
    """Of self-attention, or of the attention to what an encoder has read."""
    block = block_of(model, layer, stack)
    spec = block.spec.cross if cross else block.spec.attention
    if spec is None:
        raise GlassformerError(f"Layer {layer} has no cross-attention.")
    if spec.compress is not None:
        raise GlassformerError(
            "Keys that stand for several tokens are no matrix of one; no circuit."
        )
    module: SelfAttention | CrossAttention = block.cross if cross else block.attention
    part, dim = "cross" if cross else "attention", spec.head_dim
    if isinstance(module, CrossAttention):
        q, (k, v) = module.q.weight, torch.split(module.kv.weight, list(module.kv.parts))
    else:
        q, k, v = torch.split(module.qkv.weight, list(module.qkv.parts))
        k, v = reads(block, part, k), reads(block, part, v)
    q = reads(block, part, q)
    group = spec.heads // spec.key_heads
    q, k, v = (x.float().view(-1, dim, x.shape[1]) for x in (q, k, v))
    if spec.qk_norm is not None:
        q, k = (x * scale_of(norm)[:, None] for x, norm in ((q, module.q_norm), (k, module.k_norm)))
    k, v = (x.repeat_interleave(group, 0) for x in (k, v))
    o = writes(block, part, module.out.weight)
    return Factors(layer, q, k, v, o.view(len(o), -1, dim).transpose(0, 1))


def every(model: TaskModel, stack: str = "") -> Iterator[Factors]:
    """Of all layers whose attention is to tokens one by one."""
    module = stack_of(model, stack)
    for layer, index in enumerate(module.spec.order):
        block = module.blocks[index]
        if isinstance(block, Block) and block.spec.attention.compress is None:
            yield factors(model, layer, stack)


def reads(block: Block, part: str, weight: Tensor) -> Tensor:
    """A matrix of [out, width] behind the norm that stands before a part, if one does."""
    if block.spec.placement == "post":
        return weight.float()
    if part == "ffn" and block.spec.residual == "parallel_shared_norm":
        part = "attention"
    return straight(getattr(block, f"{part}_norm"), weight.float(), back=True)


def writes(block: Block, part: str, weight: Tensor) -> Tensor:
    """A matrix of [width, in] and what is linear in the norm behind it; where all norms of the
    stream take the mean away, without it."""
    weight = weight.float()
    if block.spec.placement == "sandwich":
        return straight(getattr(block, f"{part}_norm_out"), weight.T).T
    return weight - weight.mean(0) if block.spec.norm.kind == "layer" else weight


def straight(norm: nn.Module, x: Tensor, back: bool = False) -> Tensor:
    """What is linear in a norm, for rows of [..., width]; `back`: for what stands behind it."""
    if isinstance(norm, LayerNorm) and not back:
        x = x - x.mean(-1, keepdim=True)
    if not isinstance(norm, nn.Identity):
        x = x * scale_of(norm)
    if isinstance(norm, LayerNorm) and back:
        x = x - x.mean(-1, keepdim=True)
    return x


def scale_of(norm: nn.Module) -> Tensor:
    if isinstance(norm, BatchNorm):
        inner = norm.norm
        assert inner.running_var is not None
        return inner.weight.float() * torch.rsqrt(inner.running_var.float() + inner.eps)
    assert isinstance(norm, LayerNorm | RMSNorm)
    weight = norm.weight.float()
    return weight + 1.0 if isinstance(norm, RMSNorm) and norm.unit_offset else weight
