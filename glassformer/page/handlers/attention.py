"""Handlers for attention: one head, one layer, one query row, the whole model, one neuron."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside import StackView, View
from glassformer.inside.explain.attention_neurons import attention_neurons
from glassformer.inside.explain.head_types import head_types
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.downsample import thumbnail
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import Session

SIGHTS = ("encoder", "decoder", "cross")
THUMBNAIL = 32


def attention(session: Session, asked: RequestArgs) -> BinaryResponse:
    """Returns attention patterns in one of the forms of `VIEWS`."""
    view = session.view(asked)
    seen = side(view, asked.choice("sight", SIGHTS))
    return VIEWS[asked.choice("view", tuple(VIEWS))](seen, asked)


def side(view: View, sight: str) -> StackView:
    found: StackView = getattr(view, sight)
    if not found.spec.attention_blocks:
        raise UnsupportedError(f"{view.model.architecture} has no attention in its {sight}.")
    return found


def facts(seen: StackView) -> dict[str, Any]:
    return {
        "sight": "cross" if seen.scope else seen.stack,
        "query": seen.stack,
        "key": "encoder" if seen.scope else seen.stack,
        "queries": len(seen.tokens),
        "keys": len(seen.sources),
    }


def one_head(seen: StackView, asked: RequestArgs) -> BinaryResponse:
    found = seen.attention[asked.index("layer"), asked.index("head")]
    return BinaryResponse(facts(seen), {"pattern": (found.array.half(), found.axes)})


def one_layer(seen: StackView, asked: RequestArgs) -> BinaryResponse:
    found = seen.attention[asked.index("layer")]
    values = found.array
    heads = asked.list("heads")
    if heads is not None:
        check_heads(heads, len(values))
        values = values[list(heads)]
    if "size" in asked:
        values = thumbnail(values, asked.index("size", least=1))
    return BinaryResponse(facts(seen), {"pattern": (values.half(), found.axes)})


def check_heads(heads: Any, count: int) -> None:
    if not heads or not all(isinstance(h, int) and 0 <= h < count for h in heads):
        raise ConfigError(f"heads is a list of numbers from 0 to {count - 1}.")


def one_row(seen: StackView, asked: RequestArgs) -> BinaryResponse:
    found = seen.attention[asked.index("layer"), :, asked.index("query")]
    return BinaryResponse(facts(seen), {"pattern": (found.array.half(), found.axes)})


def whole_model(seen: StackView, asked: RequestArgs) -> BinaryResponse:
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
    return BinaryResponse(facts(seen), {"pattern": (torch.stack(tiles).half(), axes)})


def span(asked: RequestArgs, name: str, size: int) -> slice:
    """Returns the slice of an argument [from, to), such as one sentence of a pair; default all."""
    match asked.list(name):
        case None:
            return slice(None)
        case [int(first), int(end)] if 0 <= first < end <= size:
            return slice(first, end)
    raise ConfigError(f"{name} are [from, to) of the {size} there are.")


def one_neuron(seen: StackView, asked: RequestArgs) -> BinaryResponse:
    layer, head, query = (asked.index(name) for name in ("layer", "head", "query"))
    found = attention_neurons(seen, layer, head, query)
    arrays = {name: (one.array.float(), one.axes) for name, one in found.arrays.items()}
    told = {"scale": found.scale, "key_head": found.key_head}
    return BinaryResponse({**facts(seen), **told}, arrays)


def heads(session: Session, asked: RequestArgs) -> BinaryResponse:
    """Returns the head type scores."""
    sight = asked.choice("sight", SIGHTS)
    found = head_types(side(session.view(asked), sight))
    arrays = {name: (one.array.float(), one.axes) for name, one in found.items()}
    return BinaryResponse({"sight": sight}, arrays)


VIEWS: dict[str, Callable[[StackView, RequestArgs], BinaryResponse]] = {
    "head": one_head,
    "layer": one_layer,
    "row": one_row,
    "model": whole_model,
    "neuron": one_neuron,
}
