"""Triton attention kernel for one query per head and many keys.

Imported only if there is a GPU, because triton is installed only with torch's CUDA builds.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def _turned(first, second, cos, sin):  # type: ignore[no-untyped-def]
    return first * cos - second * sin, second * cos + first * sin


@triton.jit
def _tile(keys, values, first, end, at_once: tl.constexpr, dim: tl.constexpr):  # type: ignore[no-untyped-def]
    """Loads the keys of some slots, in two halves, and their values."""
    half: tl.constexpr = dim // 2
    slot = first + tl.arange(0, at_once)
    there = (slot < end)[:, None]
    place = slot[:, None] * dim + tl.arange(0, half)[None, :]
    whole = slot[:, None] * dim + tl.arange(0, dim)[None, :]
    k1 = tl.load(keys + place, there, other=0.0)
    k2 = tl.load(keys + place + half, there, other=0.0)
    return k1, k2, tl.load(values + whole, there, other=0.0)


@triton.jit
def attend(  # type: ignore[no-untyped-def]
    qkv,
    keys,
    values,
    cos,
    sin,
    newest,
    position,
    parts,
    tops,
    totals,
    arrived,
    out,
    scale,
    left,
    capacity,
    heads: tl.constexpr,
    key_heads: tl.constexpr,
    dim: tl.constexpr,
    turns: tl.constexpr,
    queries: tl.constexpr,
    early: tl.constexpr,
    ahead: tl.constexpr,
    at_once: tl.constexpr,
    splits: tl.constexpr,
):
    """Attention of the newest token.

    Rotates its query and key, stores its key and value in the cache, and averages the values that
    it sees. Its row begins as many slots before it as its position says.

    The slots of one row and group of heads are divided among `splits` programs; the last to arrive
    combines their parts. With `ahead`, keys and values are prefetched.
    """
    row, group, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    half: tl.constexpr = dim // 2
    share: tl.constexpr = heads // key_heads
    last = tl.load(newest)
    at = tl.load(position + row)
    lane, column = tl.arange(0, half), tl.arange(0, dim)
    head = tl.arange(0, queries)
    mine = head < share
    head += group * share
    base = (row * key_heads + group).to(tl.int64) * capacity * dim
    begin = tl.maximum(last - tl.minimum(at, left), 0)
    span = (last + splits - 1) // splits
    first_slot = tl.maximum(begin, split * span)
    end = tl.minimum(last, (split + 1) * span)
    if ahead:
        k1, k2, value = _tile(keys + base, values + base, first_slot, end, at_once, dim)
    if early:
        gdc_launch_dependents()
        gdc_wait()
    start = qkv + row.to(tl.int64) * (heads + 2 * key_heads) * dim
    place = start + head[:, None] * dim + lane[None, :]
    q1 = tl.load(place, mine[:, None], other=0.0).to(tl.float32)
    q2 = tl.load(place + half, mine[:, None], other=0.0).to(tl.float32)
    kind = keys.dtype.element_ty
    if turns:
        c, s = tl.load(cos + at * half + lane), tl.load(sin + at * half + lane)
        q1, q2 = _turned(q1, q2, c[None, :], s[None, :])
    q1, q2 = q1.to(kind), q2.to(kind)
    top = tl.full((queries,), -1e30, tl.float32)
    total = tl.zeros((queries,), tl.float32)
    mean = tl.zeros((queries, dim), tl.float32)
    if split == 0:  # the newest token itself
        key = start + (heads + group) * dim + lane
        new1, new2 = tl.load(key).to(tl.float32), tl.load(key + half).to(tl.float32)
        if turns:
            new1, new2 = _turned(new1, new2, c, s)
        tl.store(keys + base + last * dim + lane, new1.to(kind))
        tl.store(keys + base + last * dim + half + lane, new2.to(kind))
        new_value = tl.load(start + (heads + key_heads + group) * dim + column)
        tl.store(values + base + last * dim + column, new_value)
        score = tl.sum(q1.to(tl.float32) * new1.to(kind).to(tl.float32)[None, :], 1)
        score += tl.sum(q2.to(tl.float32) * new2.to(kind).to(tl.float32)[None, :], 1)
        top = score * scale
        total += 1.0
        mean += new_value.to(tl.float32)[None, :]
    for first in range(first_slot, end, at_once):
        if not ahead:
            k1, k2, value = _tile(keys + base, values + base, first, end, at_once, dim)
        if queries == 1:
            scores = tl.sum(k1.to(tl.float32) * q1.to(tl.float32), 1)
            scores = (scores + tl.sum(k2.to(tl.float32) * q2.to(tl.float32), 1))[None, :]
        else:
            scores = tl.dot(q1, tl.trans(k1), input_precision="ieee")
            scores = tl.dot(q2, tl.trans(k2), scores, input_precision="ieee")
        seen = (first + tl.arange(0, at_once) < end)[None, :]
        scores = tl.where(seen, scores * scale, -1e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.where(seen, tl.exp(scores - higher[:, None]), 0.0)
        fade = tl.exp(top - higher)
        if queries == 1:
            fresh = tl.sum(tl.trans(weights) * value.to(tl.float32), 0)[None, :]
        else:
            fresh = tl.dot(weights.to(kind), value, input_precision="ieee")
        mean = mean * fade[:, None] + fresh
        total = total * fade + tl.sum(weights, 1)
        top = higher
        if ahead:
            k1, k2, value = _tile(keys + base, values + base, first + at_once, end, at_once, dim)
    result = out + (row * heads + head[:, None]) * dim + column[None, :]
    if splits == 1:
        tl.store(result, (mean / total[:, None]).to(out.dtype.element_ty), mine[:, None])
    else:
        spot = (row * heads + head) * splits + split
        tl.store(parts + spot[:, None] * dim + column[None, :], mean, mine[:, None])
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
            mean = tl.zeros((queries, dim), tl.float32)
            for i in tl.static_range(splits):
                spot = first_spot + i
                weight = tl.exp(tl.load(tops + spot, mine, other=-1e30) - highest)
                total += weight * tl.load(totals + spot, mine, other=1.0)
                part = tl.load(
                    parts + spot[:, None] * dim + column[None, :], mine[:, None], other=0.0
                )
                mean += weight[:, None] * part
            tl.store(result, (mean / total[:, None]).to(out.dtype.element_ty), mine[:, None])
            tl.store(arrived + row * key_heads + group, 0)
