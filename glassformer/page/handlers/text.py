"""Handlers for the tokens of a text and for any intermediate tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, cast

import torch

from glassformer.errors import ConfigError
from glassformer.inside import NamedTensor, View
from glassformer.inside.capture.model_inputs import InputToken, token_text
from glassformer.inside.explain.highlight import highlight as find_highlight
from glassformer.inside.explain.recompute import array as named_array
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.downsample import downsample
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import AttentionType, ModelRequest, RunRequest
from glassformer.page.routes import route
from glassformer.page.session import Session
from glassformer.tasks.model_protocol import require_tokenizer

DTYPES = {"float16": torch.float16, "float32": torch.float32}
BROKEN = "\ufffd"  # what an incomplete character is decoded to
MOST_PARTS = 8  # tokens that a character, or two that share a token, are split into at most


class CharacterPart(TypedDict):
    """The characters that a token has only a part of the bytes of, and which part of them it is."""

    text: str
    part: int
    parts: int


class PageToken(TypedDict):
    """A token.

    `text` is as it stands in the text, spaces included; `piece` as in the vocabulary ("Ġday");
    `sentence` is 0 or 1 in a pair, None for special tokens; `character` is None for tokens that
    are whole characters.
    """

    id: int | None
    text: str
    piece: str
    special: bool
    sentence: int | None
    character: CharacterPart | None


class TargetText(TypedDict):
    """The decoder's text; `written` tells that the model generated it."""

    text: str
    written: bool


class ReadResponse(TypedDict):
    encoder: list[PageToken] | None
    decoder: list[PageToken] | None
    target: TargetText | None


class ArrayRequest(RunRequest):
    """A part of a tensor: a hook point, an array of a `WalkStep`, or a parameter.

    `at` maps axis names to an index, which removes the axis, or to [from, to). `downsample` maps
    axis names to their largest size.
    """

    name: str
    at: NotRequired[dict[str, int | tuple[int, int]]]
    downsample: NotRequired[dict[str, int]]
    downsample_by: NotRequired[Literal["mean", "max", "absmax"]]
    dtype: NotRequired[Literal["float16", "float32"]]


class ArrayMetadata(TypedDict):
    """The shape and axes of the whole tensor, and the range of the requested part."""

    name: str
    shape: list[int]
    axes: list[str]
    min: float
    max: float


class ArrayResponse(BinaryResponse[ArrayMetadata, Literal["array"]]):
    """A part of a tensor."""


class VocabularyRequest(ModelRequest):
    begins: str
    count: NotRequired[int]


class VocabularyEntry(TypedDict):
    token: int
    text: str
    piece: str


class VocabularyResponse(TypedDict):
    tokens: list[VocabularyEntry]


@route("read")
def read(session: Session, request: RequestArgs[RunRequest]) -> ReadResponse:
    """Returns the tokens of a text, and the target of an encoder-decoder model."""
    view = session.view(request)
    target = session.target(request)
    return {
        "encoder": tokens(view, "encoder"),
        "decoder": tokens(view, "decoder"),
        "target": None if target is None else {"text": target, "written": "target" not in request},
    }


def tokens(view: View, stack: str) -> list[PageToken] | None:
    found: tuple[InputToken, ...] = getattr(view.model_inputs, stack)
    characters = character_parts(view, found, stack)
    pairs = zip(found, characters, strict=True)
    return [page_token(view, token, character) for token, character in pairs] or None


def character_parts(
    view: View, tokens: Sequence[InputToken], stack: str
) -> list[CharacterPart | None]:
    """Returns the characters that neighboring tokens have together, for each of these tokens."""
    found: list[CharacterPart | None] = [None] * len(tokens)
    tokenizer = view.model.tokenizer
    if tokenizer is None:
        return found
    own = tokenizer.target_tokenizer if stack == "decoder" else tokenizer
    ids = [None if token.special else token.id for token in tokens]
    first = 0
    while first < len(ids):
        end = first
        while end < min(first + MOST_PARTS, len(ids)) and ids[end] is not None:
            end += 1
            text = own.decode([id for id in ids[first:end] if id is not None])
            if BROKEN not in text:
                break
        else:
            end = first + 1
        for at in range(first, end) if end - first > 1 else ():
            found[at] = {"text": text, "part": at - first, "parts": end - first}
        first = end
    return found


def page_token(view: View, token: InputToken, character: CharacterPart | None) -> PageToken:
    tokenizer = view.model.tokenizer
    piece = token.text
    if tokenizer is not None and token.id is not None and token.id < tokenizer.size:
        piece = tokenizer.token(token.id)
    return {
        "id": token.id,
        "text": token.text,
        "piece": piece,
        "special": token.special,
        "sentence": None if token.special else token.segment,
        "character": character,
    }


@route("array")
def array(session: Session, request: RequestArgs[ArrayRequest]) -> ArrayResponse:
    """Returns an intermediate tensor, sliced and downsampled as requested."""
    name = request.text("name")
    found = named_array(session.view(request), name)
    part = slice_axes(found, request.table("at"))
    values = part.array.float()
    if not values.numel():
        raise ConfigError(f"The requested part of {name!r} is empty; its shape is {found.shape}.")
    metadata: ArrayMetadata = {
        "name": name,
        "shape": list(found.shape),
        "axes": list(found.axes),
        "min": float(values.min()),
        "max": float(values.max()),
    }
    by = request.choice("downsample_by", ("mean", "max", "absmax"), "mean")
    for axis, most in request.table("downsample").items():
        if axis in part.axes:
            size = positive(most, f"downsample.{axis}")
            values = downsample(values, part.axes.index(axis), size, by)
    dtype = DTYPES[request.choice("dtype", tuple(DTYPES), "float16")]
    return ArrayResponse(metadata, {"array": (values.to(dtype), part.axes)})


def positive(value: Any, name: str) -> int:
    return RequestArgs[Any]({name: value}).index(name, least=1)


def slice_axes(named: NamedTensor, at: Any) -> NamedTensor:
    """Slices a tensor by axis name: an index, which removes its axis, or [from, to)."""
    index: list[int | slice] = [slice(None)] * len(named.axes)
    for axis, where in at.items():
        match where:
            case bool():
                raise ConfigError(f"at.{axis} is an index or [from, to), not {where!r}.")
            case int():
                index[axis_of(named, axis)] = where
            case [int(first), int(end)] if 0 <= first < end:
                index[axis_of(named, axis)] = slice(first, end)
            case _:
                raise ConfigError(f"at.{axis} is an index or [from, to), not {where!r:.40}.")
    return named[tuple(index)]


def axis_of(named: NamedTensor, axis: str) -> int:
    if axis not in named.axes:
        raise ConfigError(f"There is no axis {axis!r:.40}, only {', '.join(named.axes)}.")
    return named.axes.index(axis)


@route("vocabulary")
def vocabulary(session: Session, request: RequestArgs[VocabularyRequest]) -> VocabularyResponse:
    """Returns tokens that start with the typed text, the shortest first.

    A token matches as it is written in a text, with or without its leading space.
    """
    tokenizer = require_tokenizer(session.model(request.text("model"))).target_tokenizer
    begins = request.text("begins", "").casefold()
    count = request.index("count", 20, least=1, most=200)
    found = []
    for piece, token in tokenizer.vocabulary.items():
        text = token_text(tokenizer, token)
        if text.casefold().startswith(begins) or text.strip().casefold().startswith(begins):
            found.append((len(text), token, text, piece))
    ranked = sorted(found)[:count]
    return {"tokens": [{"token": id, "text": text, "piece": p} for _, id, text, p in ranked]}


class HighlightResponse(TypedDict):
    """The place that the page shows first; the head is None if none contributes by itself."""

    position: int
    attention_type: AttentionType | None
    layer: int | None
    head: int | None


@route("highlight")
def highlight(session: Session, request: RequestArgs[RunRequest]) -> HighlightResponse:
    """Returns the position and the head that tell most about the prediction."""
    found = find_highlight(session.view(request, edited=False))
    return {
        "position": found.position,
        "attention_type": cast(AttentionType | None, found.attention_type),
        "layer": found.layer,
        "head": found.head,
    }
