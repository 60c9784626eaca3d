"""Triton attention kernel for one query per head and many keys.

Imported only if there is a GPU, because triton is installed only with torch's CUDA builds.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def _tile(
    keys, values, first, end, at_once: tl.constexpr, dim: tl.constexpr, columns: tl.constexpr
):
    """Loads the keys and values of some slots."""
    slot, column = first + tl.arange(0, at_once), tl.arange(0, columns)
    there = (slot < end)[:, None] & (column < dim)[None, :]
    place = slot[:, None] * dim + column[None, :]
    return tl.load(keys + place, there, other=0.0), tl.load(values + place, there, other=0.0)


@triton.jit
def _scaled(x, column, weight, bias, mean, size, kind: tl.constexpr):
    """Applies a norm, whose statistics are known, to the numbers of some columns."""
    scale = tl.load(weight + column).to(tl.float32)
    if kind == "offset":
        scale += 1.0
    x = (x - mean[:, None]) * size[:, None] * scale[None, :]
    if kind == "layer":
        x += tl.load(bias + column).to(tl.float32)[None, :]
    return x


@triton.jit
def _heads(
    start,
    mine,
    weight,
    bias,
    eps,
    cos,
    sin,
    at,
    count: tl.constexpr,
    dim: tl.constexpr,
    columns: tl.constexpr,
    norm: tl.constexpr,
    rotary_dim: tl.constexpr,
    pairs: tl.constexpr,
):
    """Loads heads of [head, dim], norms them and rotates them by their position.

    A rotation needs each number's partner, which is loaded again.
    """
    column = tl.arange(0, columns)
    inside = mine[:, None] & (column < dim)[None, :]
    x = tl.load(start[:, None] + column[None, :], inside, other=0.0).to(tl.float32)
    mean = tl.zeros((count,), tl.float32)
    size = mean + 1.0
    if norm != "none":
        if (norm == "layer") | (norm == "shiftless"):
            mean = tl.sum(x, 1) / dim
        centered = tl.where(inside, x - mean[:, None], 0.0)
        size = tl.rsqrt(tl.sum(centered * centered, 1) / dim + eps)
        x = tl.where(inside, _scaled(x, column % dim, weight, bias, mean, size, norm), 0.0)
    if rotary_dim > 0:
        half: tl.constexpr = rotary_dim // 2
        if pairs:
            is_first = column % 2 == 0
            partner = tl.where(is_first, column + 1, column - 1)
        else:
            is_first = column < half
            partner = tl.where(is_first, column + half, column - half)
        rotated = column < rotary_dim
        partner = tl.where(rotated, partner, 0)
        y = tl.load(start[:, None] + partner[None, :], inside, other=0.0).to(tl.float32)
        if norm != "none":
            y = _scaled(y, partner, weight, bias, mean, size, norm)
        c = tl.load(cos + at * rotary_dim + column, rotated, other=1.0)
        s = tl.load(sin + at * rotary_dim + column, rotated, other=0.0)
        x = x * c[None, :] + y * tl.where(is_first, -s, s)[None, :]
    return x


@triton.jit
def _score(
    scores,
    head,
    distance,
    biases,
    buckets,
    scale,
    softcap,
    heads: tl.constexpr,
    bias: tl.constexpr,
):
    """Scales and caps scores of [head, key], and adds the bias of the keys' distances."""
    scores = scores * scale
    if softcap > 0:
        scores = softcap * (2 * tl.sigmoid(2 * scores / softcap) - 1)
    if bias == "alibi":
        slope = tl.load(biases + head, head < heads, other=0.0)
        scores -= slope[:, None] * distance.to(tl.float32)[None, :]
    if bias == "buckets":
        bucket = tl.load(buckets + distance)
        known = (head < heads)[:, None] & (distance >= 0)[None, :]
        place = biases + bucket[None, :] * heads + head[:, None]
        scores += tl.load(place, known, other=0.0).to(tl.float32)
    return scores


@triton.jit
def attend(
    qkv,
    keys,
    values,
    query_weight,
    query_bias,
    key_weight,
    key_bias,
    eps,
    cos,
    sin,
    biases,
    buckets,
    newest,
    begins,
    position,
    lengths,
    parts,
    tops,
    totals,
    arrived,
    out,
    scale,
    softcap,
    left,
    capacity,
    heads: tl.constexpr,
    key_heads: tl.constexpr,
    dim: tl.constexpr,
    columns: tl.constexpr,
    norm: tl.constexpr,
    rotary_dim: tl.constexpr,
    pairs: tl.constexpr,
    bias: tl.constexpr,
    cross: tl.constexpr,
    dilation: tl.constexpr,
    window_block: tl.constexpr,
    queries: tl.constexpr,
    early: tl.constexpr,
    ahead: tl.constexpr,
    at_once: tl.constexpr,
    splits: tl.constexpr,
):
    """Attention of the newest token, or of its query over a source (`cross`).

    Norms and rotates its query and key, stores its key and value in the cache, and averages the
    values that it sees. The text of a row begins in the slot `begins`, and a source has `lengths`
    slots.

    The slots of one row and group of heads are divided among `splits` programs; the last to arrive
    combines their parts. With `ahead`, keys and values are prefetched.
    """
    row, group, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    share: tl.constexpr = heads // key_heads
    width: tl.constexpr = (heads if cross else heads + 2 * key_heads) * dim
    column = tl.arange(0, columns)
    inside = column < dim
    head = tl.arange(0, queries)
    mine = head < share
    head += group * share
    base = (row * key_heads + group).to(tl.int64) * capacity * dim
    if cross:
        last = tl.load(lengths + row)
        begin = last * 0
        at = last * 0
    else:
        last = tl.load(newest)
        begin = tl.load(begins + row)
        at = tl.load(position + row)
        if window_block > 0:
            begin = last - (last - begin) % window_block
        begin = tl.maximum(begin, last - left)
    span = (last + splits - 1) // splits
    first_slot = tl.maximum(begin, split * span)
    end = tl.minimum(last, (split + 1) * span)
    if ahead:
        key, value = _tile(keys + base, values + base, first_slot, end, at_once, dim, columns)
    if early:
        gdc_launch_dependents()
        gdc_wait()
    start = qkv + row.to(tl.int64) * width
    kind = keys.dtype.element_ty
    query = _heads(
        start + head * dim, mine, query_weight, query_bias, eps, cos, sin, at, queries, dim,
        columns, norm, rotary_dim, pairs,
    ).to(kind)  # fmt: skip
    top = tl.full((queries,), -1e30, tl.float32)
    total = tl.zeros((queries,), tl.float32)
    mean = tl.zeros((queries, columns), tl.float32)
    if not cross:  # noqa: SIM102  (one is known when the kernel is compiled, the other is not)
        if split == 0:  # the newest token itself
            one = tl.arange(0, 1)
            new_key = _heads(
                start + (heads + group) * dim + one, one == 0, key_weight, key_bias, eps, cos, sin,
                at, 1, dim, columns, norm, rotary_dim, pairs,
            ).to(kind)  # fmt: skip
            spot = base + last * dim + column
            tl.store(keys + spot[None, :], new_key, inside[None, :])
            source = start + (heads + key_heads + group) * dim + column
            new_value = tl.load(source, inside, other=0.0).to(kind)
            tl.store(values + spot, new_value, inside)
            score = tl.sum(query.to(tl.float32) * new_key.to(tl.float32), 1)[:, None]
            score = _score(score, head, one, biases, buckets, scale, softcap, heads, bias)
            top = tl.sum(score, 1)
            total += 1.0
            mean += new_value.to(tl.float32)[None, :]
    for first in range(first_slot, end, at_once):
        if not ahead:
            key, value = _tile(keys + base, values + base, first, end, at_once, dim, columns)
        if queries == 1:
            scores = tl.sum(key.to(tl.float32) * query.to(tl.float32), 1)[None, :]
        else:
            scores = tl.dot(query, tl.trans(key), input_precision="ieee")
        slot = first + tl.arange(0, at_once)
        seen = slot < end
        distance = tl.where(seen, last - slot, 0)
        if dilation > 1:
            seen = seen & (distance % dilation == 0)
        scores = _score(scores, head, distance, biases, buckets, scale, softcap, heads, bias)
        scores = tl.where(seen[None, :], scores, -1e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.where(seen[None, :], tl.exp(scores - higher[:, None]), 0.0)
        fade = tl.exp(top - higher)
        if queries == 1:
            fresh = tl.sum(tl.trans(weights) * value.to(tl.float32), 0)[None, :]
        else:
            fresh = tl.dot(weights.to(kind), value, input_precision="ieee")
        mean = mean * fade[:, None] + fresh
        total = total * fade + tl.sum(weights, 1)
        top = higher
        if ahead:
            key, value = _tile(
                keys + base, values + base, first + at_once, end, at_once, dim, columns
            )
    written = mine[:, None] & inside[None, :]
    result = out + (row * heads + head[:, None]) * dim + column[None, :]
    if splits == 1:
        tl.store(result, (mean / total[:, None]).to(out.dtype.element_ty), written)
    else:
        spot = (row * heads + head) * splits + split
        tl.store(parts + spot[:, None] * dim + column[None, :], mean, written)
        tl.store(tops + spot, top, mine)
        tl.store(totals + spot, total, mine)
        tl.debug_barrier()
        count = tl.atomic_add(arrived + row * key_heads + group, 1, sem="acq_rel")
        if count == splits - 1:
            tl.debug_barrier()
            first_spot = (row * heads + head) * splits
            highest = tl.full((queries,), -1e30, tl.float32)
            for i in tl.static_range(splits):
                highest = tl.maximum(highest, tl.load(tops + first_spot + i, mine, other=-1e30))
            total = tl.zeros((queries,), tl.float32)
            mean = tl.zeros((queries, columns), tl.float32)
            for i in tl.static_range(splits):
                spot = first_spot + i
                weight = tl.exp(tl.load(tops + spot, mine, other=-1e30) - highest)
                total += weight * tl.load(totals + spot, mine, other=1.0)
                part = tl.load(parts + spot[:, None] * dim + column[None, :], written, other=0.0)
                mean += weight[:, None] * part
            tl.store(result, (mean / total[:, None]).to(out.dtype.element_ty), written)
            tl.store(arrived + row * key_heads + group, 0)
