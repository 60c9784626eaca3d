"""Page room, questions about attention: a head, a layer, a row, the whole model, a neuron."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from glassformer.errors import GlassformerError
from glassformer.inside import Side, View
from glassformer.inside.explain.head_types import kinds
from glassformer.inside.explain.attention_neurons import neurons
from glassformer.page.request_args import Asked
from glassformer.page.binary_response import Packed
from glassformer.page.session import Session
from glassformer.page.downsample import thumbnail

SIGHTS = ("encoder", "decoder", "cross")
THUMBNAIL = 32


def attention(session: Session, asked: Asked) -> Packed:
    view = session.view(asked)
    seen = side(view, asked.choice("sight", SIGHTS))
    return VIEWS[asked.choice("view", tuple(VIEWS))](seen, asked)


def side(view: View, sight: str) -> Side:
    found: Side = getattr(view, sight)
    if not found.spec.attention_blocks:
        raise GlassformerError(f"{view.model.architecture} has no attention in its {sight}.")
    return found


def facts(seen: Side) -> dict[str, Any]:
    return {
        "sight": "cross" if seen.scope else seen.stack,
        "query": seen.stack,
        "key": "encoder" if seen.scope else seen.stack,
        "queries": len(seen.tokens),
        "keys": len(seen.sources),
    }


def one_head(seen: Side, asked: Asked) -> Packed:
    found = seen.attention[asked.index("layer"), asked.index("head")]
    return Packed(facts(seen), {"pattern": (found.array.half(), found.axes)})


def one_layer(seen: Side, asked: Asked) -> Packed:
    found = seen.attention[asked.index("layer")]
    values = found.array
    heads = asked.list("heads")
    if heads is not None:
        check_heads(heads, len(values))
        values = values[list(heads)]
    if "size" in asked:
        values = thumbnail(values, asked.index("size", least=1))
    return Packed(facts(seen), {"pattern": (values.half(), found.axes)})


def check_heads(heads: Any, count: int) -> None:
    if not heads or not all(isinstance(h, int) and 0 <= h < count for h in heads):
        raise GlassformerError(f"heads is a list of numbers from 0 to {count - 1}.")


def one_row(seen: Side, asked: Asked) -> Packed:
    found = seen.attention[asked.index("layer"), :, asked.index("query")]
    return Packed(facts(seen), {"pattern": (found.array.half(), found.axes)})


def whole_model(seen: Side, asked: Asked) -> Packed:
    layers = len(seen.attention)
    first = asked.index("from", 0, most=layers - 1)
    last = asked.index("to", layers, least=first + 1, most=layers)
    size = asked.index("size", THUMBNAIL, least=1)
    rows, columns = span(asked, "queries", len(seen.tokens)), span(asked, "keys", len(seen.sources))
    tiles = [
        thumbnail(one.array[..., rows, columns], size)
        for one in seen.attention.layers(range(first, last))
    ]
    axes = ("layer", "head", "query", "key")
    return Packed(facts(seen), {"pattern": (torch.stack(tiles).half(), axes)})


def span(asked: Asked, name: str, size: int) -> slice:
    """All of them, or [from, to): one sentence of a pair."""
    match asked.list(name):
        case None:
            return slice(None)
        case [int(first), int(end)] if 0 <= first < end <= size:
            return slice(first, end)
    raise GlassformerError(f"{name} are [from, to) of the {size} there are.")


def one_neuron(seen: Side, asked: Asked) -> Packed:
    layer, head, query = (asked.index(name) for name in ("layer", "head", "query"))
    found = neurons(seen, layer, head, query)
    arrays = {name: (one.array.float(), one.axes) for name, one in found.arrays.items()}
    told = {"scale": found.scale, "key_head": found.key_head}
    return Packed({**facts(seen), **told}, arrays)


def heads(session: Session, asked: Asked) -> Packed:
    sight = asked.choice("sight", SIGHTS)
    found = kinds(side(session.view(asked), sight))
    arrays = {name: (one.array.float(), one.axes) for name, one in found.items()}
    return Packed({"sight": sight}, arrays)


VIEWS: dict[str, Callable[[Side, Asked], Packed]] = {
    "head": one_head,
    "layer": one_layer,
    "row": one_row,
    "model": whole_model,
    "neuron": one_neuron,
}
