"""Triton kernels of a decoder step with one token per row.

At one token per row, launches and reading the weights take all of the time, so norms, biases,
activations and residual sums are fused into other kernels.

If the device supports it (`early`), a kernel is launched while the previous one still runs: it
prefetches what does not depend on that one, mainly its weights, and then waits for it.

Imported only if there is a GPU, because triton is installed only with torch's CUDA builds.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def _activated(x, kind: tl.constexpr):
    if kind == "relu":
        x = tl.maximum(x, 0.0)
    elif kind == "gelu":
        x = 0.5 * x * (1 + tl.math.erf(x * 0.7071067811865476))
    elif kind == "gelu_tanh":
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        x = x * tl.sigmoid(2 * inner)  # (1 + tanh(y)) / 2 = sigmoid(2y)
    elif kind == "gelu_sigmoid":
        x = x * tl.sigmoid(1.702 * x)
    elif kind == "silu":
        x = x * tl.sigmoid(x)
    elif kind == "relu2":
        x = tl.maximum(x, 0.0)
        x = x * x
    elif kind == "tanh":
        x = 2 * tl.sigmoid(2 * x) - 1
    elif kind == "sigmoid":
        x = tl.sigmoid(x)
    return x


@triton.jit
def _normed(x, inside, column, weight, bias, eps, width: tl.constexpr, norm: tl.constexpr):
    """Applies a norm.

    `norm` is "none", "layer", "shiftless" (a layer norm without bias), "rms" or "offset" (an RMS
    norm whose scale is stored as its difference from one).
    """
    if norm != "none":
        if (norm == "layer") | (norm == "shiftless"):
            x = tl.where(inside, x - tl.sum(x, 0) / width, 0.0)
        scale = tl.load(weight + column, inside, other=0.0).to(tl.float32)
        if norm == "offset":
            scale += 1.0
        x = x * tl.rsqrt(tl.sum(x * x, 0) / width + eps) * scale
        if norm == "layer":
            x += tl.load(bias + column, inside, other=0.0).to(tl.float32)
    return x


@triton.jit
def project_row(
    x,
    norm_weight,
    norm_bias,
    eps,
    weight,
    bias,
    add,
    out,
    height,
    scale,
    softcap,
    width: tl.constexpr,
    norm: tl.constexpr,
    activation: tl.constexpr,
    biased: tl.constexpr,
    gated: tl.constexpr,
    adds: tl.constexpr,
    early: tl.constexpr,
    rows_at_once: tl.constexpr,
    columns: tl.constexpr,
):
    """out = [add +] cap(activation(scale * norm(x) W^T + b)) for one row x.

    If gated, W has the gate's rows first.
    """
    row = tl.program_id(0) * rows_at_once + tl.arange(0, rows_at_once)
    column = tl.arange(0, columns)
    there, inside = row < height, column < width
    both = there[:, None] & inside[None, :]
    place = weight + row[:, None].to(tl.int64) * width + column[None, :]
    part = tl.load(place, both, other=0.0, eviction_policy="evict_first")
    if gated:
        further = place + height.to(tl.int64) * width
        other = tl.load(further, both, other=0.0, eviction_policy="evict_first")
    if early:
        gdc_launch_dependents()
        gdc_wait()
    values = tl.load(x + column, inside, other=0.0).to(tl.float32)
    values = _normed(values, inside, column, norm_weight, norm_bias, eps, width, norm) * scale
    result = tl.sum(part.to(tl.float32) * values[None, :], 1)
    if biased:
        result += tl.load(bias + row, there, other=0.0).to(tl.float32)
    result = _activated(result, activation)
    if gated:
        linear = tl.sum(other.to(tl.float32) * values[None, :], 1)
        if biased:
            linear += tl.load(bias + height + row, there, other=0.0).to(tl.float32)
        result *= linear
    if softcap > 0:
        result = softcap * (2 * tl.sigmoid(2 * result / softcap) - 1)
    if adds:
        result += tl.load(add + row, there, other=0.0)
    tl.store(out + row, result.to(out.dtype.element_ty), there)


@triton.jit
def project_rows(
    x,
    weight,
    bias,
    out,
    parts,
    arrived,
    rows,
    height,
    width: tl.constexpr,
    activation: tl.constexpr,
    biased: tl.constexpr,
    gated: tl.constexpr,
    adds: tl.constexpr,
    early: tl.constexpr,
    most_rows: tl.constexpr,
    columns_at_once: tl.constexpr,
    width_at_once: tl.constexpr,
    splits: tl.constexpr,
):
    """out [+]= activation(x W^T + b) for some rows.

    The width is divided among `splits` programs; the last to arrive adds up their parts, always in
    the same order.
    """
    tile, split = tl.program_id(0), tl.program_id(1)
    row, inner = tl.arange(0, most_rows), tl.arange(0, width_at_once)
    column = tile * columns_at_once + tl.arange(0, columns_at_once)
    there, inside = row < rows, column < height
    span: tl.constexpr = width // splits
    left = x + row[:, None] * width + split * span + inner[None, :]
    right = weight + column[:, None].to(tl.int64) * width + split * span + inner[None, :]
    result = tl.zeros((most_rows, columns_at_once), tl.float32)
    linear = tl.zeros((most_rows, columns_at_once), tl.float32)
    if early:
        gdc_launch_dependents()
        gdc_wait()
    for first in range(0, span, width_at_once):
        values = tl.load(left + first, there[:, None], other=0.0)
        part = tl.load(right + first, inside[:, None], other=0.0)
        result = tl.dot(values, tl.trans(part), result, input_precision="ieee")
        if gated:
            other = tl.load(right + height.to(tl.int64) * width + first, inside[:, None], other=0.0)
            linear = tl.dot(values, tl.trans(other), linear, input_precision="ieee")
    both = there[:, None] & inside[None, :]
    place = row[:, None] * height + column[None, :]
    last = True
    if splits > 1:
        tl.store(parts + split * rows * height + place, result, both)
        tl.debug_barrier()
        last = tl.atomic_add(arrived + tile, 1, sem="acq_rel") == splits - 1
        if last:
            tl.debug_barrier()
            tl.store(arrived + tile, 0)
            result = tl.zeros((most_rows, columns_at_once), tl.float32)
            for i in tl.static_range(splits):
                result += tl.load(parts + i * rows * height + place, both, other=0.0)
    if last:
        if biased:
            result += tl.load(bias + column, inside, other=0.0).to(tl.float32)[None, :]
        result = _activated(result, activation)
        if gated:
            if biased:
                more = tl.load(bias + height + column, inside, other=0.0).to(tl.float32)
                linear += more[None, :]
            result *= linear
        if adds:
            result += tl.load(out + place, both, other=0.0)
        tl.store(out + place, result.to(out.dtype.element_ty), both)


@triton.jit
def add_and_norm(
    stream,
    change,
    norm_weight,
    norm_bias,
    eps,
    out,
    scale,
    width: tl.constexpr,
    norm: tl.constexpr,
    adds: tl.constexpr,
    accumulates: tl.constexpr,
    early: tl.constexpr,
    columns: tl.constexpr,
):
    """stream += change; out [+]= scale * norm(stream), with one program per row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, columns)
    inside = column < width
    if early:
        gdc_launch_dependents()
        gdc_wait()
    x = tl.load(stream + row * width + column, inside, other=0.0).to(tl.float32)
    if adds:
        x += tl.load(change + row * width + column, inside, other=0.0).to(tl.float32)
        tl.store(stream + row * width + column, x, inside)
    x = _normed(x, inside, column, norm_weight, norm_bias, eps, width, norm) * scale
    if accumulates:
        x += tl.load(out + row * width + column, inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + column, x.to(out.dtype.element_ty), inside)


@triton.jit
def activate(
    x,
    out,
    width,
    gated: tl.constexpr,
    activation: tl.constexpr,
    early: tl.constexpr,
    at_once: tl.constexpr,
):
    """out = activation(x), or if gated, activation(gate) * the other half of x."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * at_once + tl.arange(0, at_once)
    inside = column < width
    start = x + row * width * (2 if gated else 1)
    if early:
        gdc_launch_dependents()
        gdc_wait()
    result = _activated(tl.load(start + column, inside, other=0.0).to(tl.float32), activation)
    if gated:
        result *= tl.load(start + width + column, inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + column, result.to(out.dtype.element_ty), inside)


@triton.jit
def embed(
    tokens,
    table,
    segments,
    positions,
    position,
    stream,
    scale,
    offset,
    uncounted_token,
    uncounted_position,
    width: tl.constexpr,
    has_table: tl.constexpr,
    has_segments: tl.constexpr,
    has_positions: tl.constexpr,
    columns: tl.constexpr,
):
    """stream = scale * table[token] + segments[0] + positions[position].

    Without a table the rest is added to the stream.
    """
    row = tl.program_id(0)
    column = tl.arange(0, columns)
    inside = column < width
    token = tl.load(tokens + row)
    if has_table:
        x = tl.load(table + token * width + column, inside, other=0.0).to(tl.float32) * scale
    else:
        x = tl.load(stream + row * width + column, inside, other=0.0)
    if has_segments:
        x += tl.load(segments + column, inside, other=0.0).to(tl.float32)
    if has_positions:
        at = tl.load(position + row)
        at = tl.where(token == uncounted_token, uncounted_position, at) + offset
        x += tl.load(positions + at * width + column, inside, other=0.0).to(tl.float32)
    tl.store(stream + row * width + column, x, inside)


@triton.jit
def best_of_part(
    logits, stride, best, where, total, height, parts: tl.constexpr, at_once: tl.constexpr
):
    """Computes a part's highest score, its index, and the sum of exp(score - highest)."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    place = part * at_once + tl.arange(0, at_once)
    x = tl.load(logits + row * stride + place, place < height, other=float("-inf"))
    x = x.to(tl.float32)
    highest = tl.max(x, 0)
    at = tl.min(tl.where(x == highest, place, height - 1), 0)  # first of ties, as torch.argmax
    spot = row * parts + part
    tl.store(best + spot, highest)
    tl.store(where + spot, at)
    tl.store(total + spot, tl.sum(tl.exp(x - highest), 0))


@triton.jit
def choose_best(
    best,
    where,
    total,
    tokens,
    made,
    logprobs,
    count,
    capacity,
    height,
    parts: tl.constexpr,
    columns: tl.constexpr,
):
    """Writes a row's most probable token as the next input and into the burst's output."""
    row = tl.program_id(0)
    part = tl.arange(0, columns)
    inside = part < parts
    values = tl.load(best + row * parts + part, inside, other=float("-inf"))
    highest = tl.max(values, 0)
    places = tl.load(where + row * parts + part, inside, other=height - 1)
    token = tl.min(tl.where(values == highest, places, height - 1), 0).to(tl.int64)
    sums = tl.load(total + row * parts + part, inside, other=0.0)
    whole = tl.sum(tl.where(inside, sums * tl.exp(values - highest), 0.0), 0)
    spot = row * capacity + tl.load(count)
    tl.store(tokens + row, token)
    tl.store(made + spot, token)
    tl.store(logprobs + spot, -tl.log(whole))


def row_shape(width: int, gated: bool = False) -> tuple[int, int]:
    """Returns how many weight rows a `project_row` program reads, and its number of warps.

    The values were measured on an H200.
    """
    columns = triton.next_power_of_2(width)
    rows = 4 if columns <= 1024 else 2 if columns <= 4096 else 1
    return max(1, rows // 2) if gated else rows, 4
