"""HTML for attention patterns.

One head is shown as lines between tokens and as a matrix, and all heads of all layers as thumbnails
to choose from.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from glassformer.errors import GlassformerError
from glassformer.inside.show.heatmap import downsampled, picture
from glassformer.inside.show.html import fragment, plain

if TYPE_CHECKING:
    from glassformer.inside.capture.stack_view import LayerTensors

MAX_CELLS = 3_000_000  # maximum number of cells in one file

SCRIPT = Path(__file__).with_name("attention.js").read_text("utf-8")


def html(layers: LayerTensors) -> str:
    if layers.tensor != "pattern":
        return fragment(f"{layers.side.title}: {layers.tensor}", picture(layers[:]))
    title = f"{layers.side.title}: attention"
    try:
        named = layers[:]
    except GlassformerError as error:  # layers of different shapes
        return fragment(title, f"<p>{error}</p>{picture(layers[0])}")
    array = named.array.detach().float().cpu()
    lead = array.shape[0] * array.shape[1]
    side = max(8, int((MAX_CELLS / lead) ** 0.5))
    small = downsampled(array, side)
    whole = small.shape == array.shape
    cells = (small.clamp(0, 1) * 255).round().to(torch.uint8).numpy().tobytes()
    sizes = small.shape[2:]
    query, key = (
        [plain(w) for w in named.labels[axis]] if whole else [str(i) for i in range(size)]
        for axis, size in zip(("query", "key"), sizes, strict=True)
    )
    height = 20 + 16 * max(sizes)
    lines = f'<svg width="480" height="{height}" role="img" aria-label="lines from each token to '
    lines += 'those it attends to"></svg>'
    note = "" if whole else "<p>A cell is the largest of its neighbors: the text is long.</p>"
    body = (
        "<p>Who takes how much from whom. Choose a layer and a head; click a token on the left to "
        "see its lines alone.</p>"
        '<p><label>layer <select class="layer"></select></label> '
        '<label>head <select class="head"></select></label> <span class="said"></span></p>'
        f"{note}<div class='row'><div class='scroll'>{lines if max(sizes) <= 64 else ''}</div>"
        "<canvas class='big'></canvas></div><h3>All layers (down) and heads (across)</h3>"
        "<div class='all scroll'></div>"
    )
    data = {
        "cells": base64.b64encode(cells).decode(),
        "shape": list(small.shape),
        "query": query,
        "key": key,
    }
    return fragment(title, body, SCRIPT, data)
