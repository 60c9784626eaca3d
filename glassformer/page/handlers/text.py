"""Handlers for the tokens of a text and for any intermediate tensor."""

from __future__ import annotations

from typing import Any

import torch

from glassformer.errors import ConfigError
from glassformer.inside import NamedTensor, View
from glassformer.inside.capture.model_inputs import InputToken, token_text
from glassformer.inside.explain.recompute import array as named_array
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.downsample import shrunk
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import Session
from glassformer.tasks.model_protocol import require_tokenizer

DTYPES = {"float16": torch.float16, "float32": torch.float32}


def read(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the tokens of a text, and the target of an encoder-decoder model."""
    view = session.view(asked)
    target = session.target(asked)
    return {
        "encoder": tokens(view, "encoder"),
        "decoder": tokens(view, "decoder"),
        "target": None if target is None else {"text": target, "written": "target" not in asked},
    }


def tokens(view: View, stack: str) -> list[dict[str, Any]] | None:
    found: tuple[InputToken, ...] = getattr(view.reading, stack)
    return [token_facts(view, token) for token in found] or None


def token_facts(view: View, token: InputToken) -> dict[str, Any]:
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
    }


def array(session: Session, asked: RequestArgs) -> BinaryResponse:
    """Returns an intermediate tensor, sliced and downsampled as requested."""
    name = asked.text("name")
    found = named_array(session.view(asked), name)
    facts: dict[str, Any] = {"name": name, "shape": list(found.shape), "axes": list(found.axes)}
    part = cut(found, asked.table("at"))
    values = part.array.float()
    if not values.numel():
        raise ConfigError(f"Nothing of {name!r} stands there; its shape is {found.shape}.")
    facts |= {"min": float(values.min()), "max": float(values.max())}
    by = asked.choice("shrink_by", ("mean", "max", "absmax"), "mean")
    for axis, most in asked.table("shrink").items():
        if axis in part.axes:
            values = shrunk(values, part.axes.index(axis), whole(most, f"shrink.{axis}"), by)
    dtype = DTYPES[asked.choice("dtype", tuple(DTYPES), "float16")]
    return BinaryResponse(facts, {"array": (values.to(dtype), part.axes)})


def whole(value: Any, name: str) -> int:
    return RequestArgs({name: value}).index(name, least=1)


def cut(named: NamedTensor, at: Any) -> NamedTensor:
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


def vocabulary(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns tokens that start with the typed text, the shortest first.

    A token matches as it is written in a text, with or without its leading space.
    """
    tokenizer = require_tokenizer(session.model(asked.text("model"))).target
    begins = asked.text("begins", "").casefold()
    count = asked.index("count", 20, least=1, most=200)
    found = []
    for piece, token in tokenizer.vocabulary.items():
        text = token_text(tokenizer, token)
        if text.casefold().startswith(begins) or text.strip().casefold().startswith(begins):
            found.append((len(text), token, text, piece))
    ranked = sorted(found)[:count]
    return {"tokens": [{"token": id, "text": text, "piece": p} for _, id, text, p in ranked]}
