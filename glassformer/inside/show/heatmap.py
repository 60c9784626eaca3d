"""HTML for tensors of any number of axes as heat maps."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.show.html import fragment, signed_color, word
from glassformer.rounding import ceil_div

CELL, SMALL = 16, 40  # cell size in pixels; beyond this many cells an image is used
SIDE = 512  # maximum image size in cells
MANY = 64  # maximum number of images in a row
ABOVE, BELOW = (11, 122, 117), (194, 87, 26)


def html(named: NamedTensor) -> str:
    axes = ", ".join(f"{a} {n}" for a, n in zip(named.axes, named.shape, strict=True))
    if not named.axes:
        return fragment(named.title or "number", f"<p>{float(named.array):.6g}</p>")
    return fragment(named.title or "array", f"<p>[{axes}]</p>{picture(named)}")


def picture(named: NamedTensor) -> str:
    """Renders one axis as a row, two as a heat map, and more as several heat maps."""
    array = named.array.detach().float().cpu()
    most = float(array.nan_to_num().abs().max()) if array.numel() else 0.0
    if array.ndim == 1:
        return render_heatmap(NamedTensor(array[None], ("", named.axes[0]), named.labels), most)
    if array.ndim == 2:
        return render_heatmap(named, most)
    lead = list(product(*(range(n) for n in array.shape[:-2])))
    names = named.axes[:-2]
    parts = []
    for place in lead[:MANY]:
        caption = ", ".join(f"{name} {i}" for name, i in zip(names, place, strict=True))
        parts.append(
            f"<figure>{image(array[place], most, 120)}<figcaption>{caption}</figcaption></figure>"
        )
    more = f"<p>The first {MANY} of {len(lead)}.</p>" if len(lead) > MANY else ""
    return f"{more}<div class='row'>{''.join(parts)}</div>"


def render_heatmap(named: NamedTensor, most: float) -> str:
    """Renders [row, column] as a heat map, with labels if there are few enough cells."""
    array = named.array.detach().float().cpu()
    rows, columns = array.shape
    if max(rows, columns) > SMALL or not named.labels:
        return image(array, most, 480)
    down = labels(named, 0)
    across = labels(named, 1)
    left = 8 + 6.7 * max(map(len, down), default=0)
    top = 8 + 6.7 * max(map(len, across), default=0)
    parts = []
    for i in range(rows):
        y = top + CELL * i
        parts.append(
            f'<text x="{left - 5:.0f}" y="{y + 12:.0f}" text-anchor="end">{down[i]}</text>'
        )
        for j in range(columns):
            value = float(array[i, j])
            parts.append(
                f'<rect x="{left + CELL * j:.0f}" y="{y:.0f}" width="{CELL - 1}" '
                f'height="{CELL - 1}" style="fill:{signed_color(value, most)}">'
                f"<title>{down[i]} {across[j]}: {value:.4g}</title></rect>"
            )
    for j in range(columns):
        place = f"translate({left + CELL * j + 11:.0f} {top - 5:.0f}) rotate(-90)"
        parts.append(f'<text transform="{place}">{across[j]}</text>')
    width, height = left + CELL * columns + 4, top + CELL * rows + 4
    size = f'width="{width:.0f}" height="{height:.0f}"'
    return f"<div class='scroll'><svg role='img' {size}>{''.join(parts)}</svg></div>"


def labels(named: NamedTensor, axis: int) -> list[str]:
    size = named.shape[axis]
    given: Sequence[str] = named.labels.get(named.axes[axis], [""] * size)
    return [word(text) if text else "" for text in given]


def image(array: Tensor, most: float, side: int) -> str:
    """Renders a PNG data URL; a larger array is reduced to the strongest of neighboring cells."""
    array = downsampled(array.detach().float().cpu(), SIDE)
    height, width = array.shape
    scale = side / max(height, width, 1)
    size = f'width="{max(1, round(width * scale))}" height="{max(1, round(height * scale))}"'
    data = base64.b64encode(png(array, most)).decode()
    return f'<img alt="" {size} src="data:image/png;base64,{data}">'


def downsampled(array: Tensor, side: int) -> Tensor:
    """Reduces [..., row, column] to at most `side` of each, keeping the strongest of neighbors."""
    steps = [max(1, ceil_div(n, side)) for n in array.shape[-2:]]
    if steps == [1, 1]:
        return array
    lead = array.shape[:-2]
    flat = array.reshape(-1, 1, *array.shape[-2:])
    high = F.max_pool2d(flat, steps, ceil_mode=True)
    low = -F.max_pool2d(-flat, steps, ceil_mode=True)
    strongest = torch.where(high.abs() >= low.abs(), high, low)
    return strongest.reshape(*lead, *strongest.shape[-2:])


def png(array: Tensor, most: float) -> bytes:
    """Encodes an array as PNG: white at zero, one color for positive, one for negative values.

    It is written here, because Pillow is an extra that only models of images need.
    """
    share = (array.nan_to_num() / (most or 1.0)).clamp(-1, 1)[..., None]
    above, below = torch.tensor(ABOVE), torch.tensor(BELOW)
    color = 255 + share.abs() * (torch.where(share >= 0, above, below) - 255)
    rows = color.round().to(torch.uint8).numpy()
    raw = b"".join(b"\0" + row.tobytes() for row in rows)

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = struct.pack(">IIBBBBB", array.shape[1], array.shape[0], 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
