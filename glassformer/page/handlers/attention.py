"""Handlers for attention: one head, one layer, one query row, the whole model, one neuron."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NotRequired, TypedDict

import torch

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside import StackView, View
from glassformer.inside.explain.attention_neurons import attention_neurons
from glassformer.inside.explain.head_types import head_types
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.downsample import thumbnail
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import AttentionType, RunRequest, StackName, stack_name
from glassformer.page.routes import route
from glassformer.page.session import Session

ATTENTION_TYPES = ("encoder", "decoder", "cross")
THUMBNAIL = 32


class HeadTypesRequest(RunRequest):
    attention_type: AttentionType


class HeadPatternRequest(HeadTypesRequest):
    """The pattern of one head."""

    view: Literal["head"]
    layer: int
    head: int


class LayerPatternsRequest(HeadTypesRequest):
    """The patterns of some or all heads of a layer, downsampled to at most `size` x `size`."""

    view: Literal["layer"]
    layer: int
    heads: NotRequired[list[int]]
    size: NotRequired[int]


class QueryRowRequest(HeadTypesRequest):
    """The attention weights of one query in all heads of a layer."""

    view: Literal["row"]
    layer: int
    query: int


class ModelPatternsRequest(HeadTypesRequest):
    """Thumbnails of all heads of the layers [first, end), of the queries and keys [from, to)."""

    view: Literal["model"]
    size: NotRequired[int]
    first: NotRequired[int]
    end: NotRequired[int]
    queries: NotRequired[tuple[int, int]]
    keys: NotRequired[tuple[int, int]]


class NeuronsRequest(HeadTypesRequest):
    """The query, keys and scores of one query of a head."""

    view: Literal["neuron"]
    layer: int
    head: int
    query: int


AttentionRequest = (
    HeadPatternRequest
    | LayerPatternsRequest
    | QueryRowRequest
    | ModelPatternsRequest
    | NeuronsRequest
)


class PatternMetadata(TypedDict):
    """The stacks of the queries and keys, and their numbers of tokens."""

    attention_type: AttentionType
    query: StackName
    key: StackName
    queries: int
    keys: int


class PatternResponse(BinaryResponse[PatternMetadata, Literal["pattern"]]):
    """Attention weights in float16; axes: some of [layer, head, query, key].

    A cell of a thumbnail is the largest weight of the cells that it covers.
    """


class NeuronsMetadata(PatternMetadata):
    scale: float
    key_head: int  # the head of keys that this head reads


class NeuronsResponse(
    BinaryResponse[
        NeuronsMetadata, Literal["q", "k", "product", "dot", "bias", "scores", "pattern"]
    ]
):
    """q [dim], k and product (q * k) [key, dim]; dot, bias, scores and pattern [key].

    `bias` is what positions add; it is absent if they add nothing.
    """


class HeadTypesMetadata(TypedDict):
    attention_type: AttentionType


class HeadTypesResponse(
    BinaryResponse[
        HeadTypesMetadata,
        Literal["previous", "first", "self", "same", "induction", "entropy"],
    ]
):
    """Mean attention weight on certain tokens, and mean entropy in nats, [layer, head] each.

    Cross-attention has `first` and `entropy` only.
    """


@route("attention")
def attention(
    session: Session, request: RequestArgs[AttentionRequest]
) -> PatternResponse | NeuronsResponse:
    """Returns attention patterns in one of the forms of `VIEWS`."""
    view = session.view(request)
    stack = stack_view(view, request.choice("attention_type", ATTENTION_TYPES))
    return VIEWS[request.choice("view", tuple(VIEWS))](stack, request)


def stack_view(view: View, attention_type: str) -> StackView:
    found: StackView = getattr(view, attention_type)
    if not found.spec.attention_blocks:
        raise UnsupportedError(
            f"{view.model.architecture} has no attention in its {attention_type}."
        )
    return found


def metadata(stack: StackView) -> PatternMetadata:
    own = stack_name(stack.stack)
    return {
        "attention_type": "cross" if stack.scope else own,
        "query": own,
        "key": "encoder" if stack.scope else own,
        "queries": len(stack.tokens),
        "keys": len(stack.sources),
    }


def head_pattern(stack: StackView, request: RequestArgs[Any]) -> PatternResponse:
    found = stack.attention[request.index("layer"), request.index("head")]
    return PatternResponse(metadata(stack), {"pattern": (found.array.half(), found.axes)})


def layer_patterns(stack: StackView, request: RequestArgs[Any]) -> PatternResponse:
    found = stack.attention[request.index("layer")]
    values = found.array
    heads = request.list("heads")
    if heads is not None:
        check_heads(heads, len(values))
        values = values[list(heads)]
    if "size" in request:
        values = thumbnail(values, request.index("size", least=1))
    return PatternResponse(metadata(stack), {"pattern": (values.half(), found.axes)})


def check_heads(heads: Any, count: int) -> None:
    if not heads or not all(isinstance(h, int) and 0 <= h < count for h in heads):
        raise ConfigError(f"heads is a list of numbers from 0 to {count - 1}.")


def query_row(stack: StackView, request: RequestArgs[Any]) -> PatternResponse:
    found = stack.attention[request.index("layer"), :, request.index("query")]
    return PatternResponse(metadata(stack), {"pattern": (found.array.half(), found.axes)})


def model_patterns(stack: StackView, request: RequestArgs[Any]) -> PatternResponse:
    layers = len(stack.attention)
    first = request.index("first", 0, most=layers - 1)
    end = request.index("end", layers, least=first + 1, most=layers)
    size = request.index("size", THUMBNAIL, least=1)
    rows = span(request, "queries", len(stack.tokens))
    columns = span(request, "keys", len(stack.sources))
    tiles = [
        thumbnail(one.array[..., rows, columns], size)
        for one in stack.attention.layers(range(first, end))
    ]
    axes = ("layer", "head", "query", "key")
    return PatternResponse(metadata(stack), {"pattern": (torch.stack(tiles).half(), axes)})


def span(request: RequestArgs[Any], name: str, size: int) -> slice:
    """Returns the slice of an argument [from, to), such as one sentence of a pair; default all."""
    match request.list(name):
        case None:
            return slice(None)
        case [int(first), int(end)] if 0 <= first < end <= size:
            return slice(first, end)
    raise ConfigError(f"{name} are [from, to) of the {size} there are.")


def neurons(stack: StackView, request: RequestArgs[Any]) -> NeuronsResponse:
    layer, head, query = (request.index(name) for name in ("layer", "head", "query"))
    found = attention_neurons(stack, layer, head, query)
    arrays = {name: (one.array.float(), one.axes) for name, one in found.arrays.items()}
    return NeuronsResponse(
        {**metadata(stack), "scale": found.scale, "key_head": found.key_head}, arrays
    )


@route("heads")
def heads(session: Session, request: RequestArgs[HeadTypesRequest]) -> HeadTypesResponse:
    """Returns the head type scores."""
    stack = stack_view(session.view(request), request.choice("attention_type", ATTENTION_TYPES))
    arrays = {name: (one.array.float(), one.axes) for name, one in head_types(stack).items()}
    return HeadTypesResponse({"attention_type": metadata(stack)["attention_type"]}, arrays)


VIEWS: dict[str, Callable[[StackView, RequestArgs[Any]], PatternResponse | NeuronsResponse]] = {
    "head": head_pattern,
    "layer": layer_patterns,
    "row": query_row,
    "model": model_patterns,
    "neuron": neurons,
}
