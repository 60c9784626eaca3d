"""Triton kernels for a decoding step of one token per row, which is bound by memory bandwidth.

Imported only if there is a GPU, because triton is installed only with torch's CUDA builds.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from glassformer.core.linear import Linear
from glassformer.core.pass_context import PassContext
from glassformer.generate.backends.triton.kernels import project_row, row_shape
from glassformer.spec import AttentionPattern

QUERIES = 16  # minimum size of a matrix product; a group of heads fills part of it
NO_LIMIT = 2**30
EVEN = 64  # matrix products are slow unless the weight's height is a multiple of it


@torch.library.custom_op("glassformer::row_linear", mutates_args=())
def row_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b for one row x."""
    height, width = weight.shape
    out = x.new_empty(*x.shape[:-1], height)
    rows, warps = row_shape(width)
    project_row[(triton.cdiv(height, rows),)](
        x, x, x, 0.0, weight, weight if bias is None else bias, x, out, height, 1.0, 0.0, width,
        "none", "linear", bias is not None, False, False, False, rows,
        triton.next_power_of_2(width), num_warps=warps,
    )  # fmt: skip
    return out


@row_linear.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[0])


@triton.jit
def _attend(
    q,
    k,
    v,
    newest,
    real,
    out,
    scale,
    left,
    q_row,
    q_head,
    rows,
    capacity,
    heads: tl.constexpr,
    key_heads: tl.constexpr,
    dim: tl.constexpr,
    keys_at_once: tl.constexpr,
    queries: tl.constexpr,
):
    row, group = tl.program_id(0), tl.program_id(1)
    share: tl.constexpr = heads // key_heads
    last = tl.load(newest)
    head, column = tl.arange(0, queries), tl.arange(0, dim)
    mine = (head < share)[:, None]
    head += group * share
    query = tl.load(q + row * q_row + head[:, None] * q_head + column[None, :], mine, other=0.0)
    top = tl.full((queries,), -1e30, tl.float32)
    total = tl.zeros((queries,), tl.float32)
    mean = tl.zeros((queries, dim), tl.float32)
    base = (row * key_heads + group).to(tl.int64) * capacity * dim
    begin = tl.maximum(last - left, 0) // keys_at_once * keys_at_once
    for first in range(begin, last + 1, keys_at_once):
        slot = first + tl.arange(0, keys_at_once)
        there = slot <= last
        seen = (tl.load(real + row * capacity + slot, there, other=0) != 0) & (slot >= last - left)
        place = base + slot[:, None] * dim + column[None, :]
        keys = tl.load(k + place, there[:, None], other=0.0)
        scores = tl.dot(query, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(seen[None, :], scores, -1e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.where(seen[None, :], tl.exp(scores - higher[:, None]), 0.0)
        fade = tl.exp(top - higher)
        values = tl.load(v + place, there[:, None], other=0.0)
        mean = mean * fade[:, None]
        mean += tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        total = total * fade + tl.sum(weights, 1)
        top = higher
    mean = mean / tl.maximum(total, 1e-30)[:, None]
    place = (row * heads + head[:, None]) * dim + column[None, :]
    tl.store(out + place, mean.to(out.dtype.element_ty), mine)


@torch.library.custom_op("glassformer::attend_newest", mutates_args=())
def _attend_newest(
    q: Tensor, k: Tensor, v: Tensor, newest: Tensor, real: Tensor, scale: float, left: int
) -> Tensor:
    rows, heads, _, dim = q.shape
    key_heads, capacity = k.shape[1], k.shape[2]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    queries = max(QUERIES, triton.next_power_of_2(heads // key_heads))
    _attend[(rows, key_heads)](
        q, k, v, newest, real, out, scale, left, q.stride(0), q.stride(1), rows, capacity,
        heads=heads, key_heads=key_heads, dim=dim, keys_at_once=32 if dim > 128 else 64,
        queries=queries, num_warps=4,
    )  # fmt: skip
    return out


@_attend_newest.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, newest: Tensor, real: Tensor, scale: float, left: int
) -> Tensor:
    return torch.empty(q.shape, dtype=q.dtype, device=q.device)


def attend_newest(
    q: Tensor, k: Tensor, v: Tensor, ctx: PassContext, pattern: AttentionPattern, scale: float
) -> Tensor:
    """Attention of the newest token's query, [row, head, 1, dim].

    Keys and values are [row, key head, slot, dim]. The query attends to the real tokens up to its
    own slot that the attention pattern allows.
    """
    left = NO_LIMIT if pattern.left is None else pattern.left
    assert ctx.key_mask is not None
    out: Tensor = _attend_newest(q, k, v, ctx.q_slot, ctx.key_mask, scale, left)
    return out


def prepare(linear: Linear) -> None:
    """Makes a GPU compute the layer with `linear_of` from now on.

    The weight becomes contiguous (a file may store it transposed), and an odd height is padded with
    spare rows.
    """
    weight = linear.weight
    weight.data = weight.detach().contiguous()
    if weight.shape[0] % EVEN and linear.with_spare_rows() is None:
        padded_weight = F.pad(weight.detach(), (0, 0, 0, -weight.shape[0] % EVEN))
        weight.data = padded_weight[: weight.shape[0]]
        linear.padded_weight = padded_weight
    linear.forward_override = linear_of


def linear_of(x: Tensor, linear: Linear) -> Tensor | None:
    """Computes a linear layer: one row by its own kernel, several by a product of padded height.

    Returns None if the standard implementation is to be used.
    """
    if x.numel() == x.shape[-1]:
        one: Tensor = row_linear(x, linear.weight, linear.full_bias)
        return one
    padded_weight = linear.with_spare_rows()
    if padded_weight is None:
        return None
    out = F.linear(x, padded_weight)[..., : linear.weight.shape[0]]
    bias = linear.full_bias
    return out if bias is None else out + bias
