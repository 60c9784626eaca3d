"""Handlers for next-token candidates, beam search and step-by-step generation."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict, cast

from glassformer.errors import InputError, UnsupportedError
from glassformer.inside import View
from glassformer.inside.attribute.predictions import Predicted, mask_token
from glassformer.inside.generation_trace import (
    BeamNode,
    beam_tree,
    cache_size,
    continued_position,
    generation_trace,
)
from glassformer.inside.intervene.choices import OutputCandidate, OutputChoice, choices
from glassformer.page import describe_model
from glassformer.page.model_description import PredictionKind
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import RunRequest, SamplingOptions, StackName, stack_name
from glassformer.page.routes import route
from glassformer.page.session import Session

MAX_NEW_TOKENS = 64
MAX_CANDIDATES = 400
MAX_BEAMS = 16
StopReason = Literal["eos", "length", "string", "time"]


class NextRequest(RunRequest, SamplingOptions):
    position: NotRequired[int]  # by default all
    count: NotRequired[int]  # number of candidates


class NextResponse(TypedDict):
    """`masks` are the positions of the mask token."""

    what: PredictionKind
    positions: list[OutputChoice]
    masks: list[int]


class ContinueRequest(RunRequest):
    """The token to append to the text, or to fill in the mask at `position`."""

    token: int
    position: NotRequired[int]


class ContinueResponse(TypedDict):
    text: str
    pair: NotRequired[str]
    target: NotRequired[str]


class BeamsRequest(RunRequest):
    """A beam search after `position`, by default that of `continued_position`."""

    beams: int
    length: int
    position: NotRequired[int]
    length_penalty: NotRequired[float]


class BeamResult(TypedDict):
    """A result; `node` is the index of its last token, `score` is sum / length^length_penalty."""

    node: int
    text: str
    score: float | None
    stop: StopReason


class BeamsResponse(TypedDict):
    """The tree of beam search after the token at `position`; the results are sorted by score."""

    position: int
    nodes: list[BeamNode]
    results: list[BeamResult]


class StepRequest(RunRequest, SamplingOptions):
    """Generation after `position`, by default that of `continued_position`."""

    length: NotRequired[int]
    position: NotRequired[int]
    seed: NotRequired[int]
    sample: NotRequired[bool]


class TracedStep(TypedDict):
    """A generation step.

    The keys and values of `reused` tokens were in the cache, those of `fresh` tokens were computed,
    and those of `held` tokens are in the cache afterwards.
    """

    reused: int
    fresh: int
    held: int
    bytes: int
    chosen: OutputCandidate
    candidates: tuple[OutputCandidate, ...]
    milliseconds: float


class EncoderCache(TypedDict):
    """The keys and values of the encoder's output, computed once."""

    tokens: int
    bytes: int


class CacheDescription(TypedDict):
    stack: StackName
    layers: int
    key_heads: int
    head_dim: int
    bytes_per_token: int
    memory: EncoderCache | None


class StepResponse(TypedDict):
    steps: list[TracedStep]
    cache: CacheDescription
    stop: StopReason
    position: int


@route("next")
def next_tokens(session: Session, request: RequestArgs[NextRequest]) -> NextResponse:
    """Returns the output distributions at one or all positions."""
    view = session.view(request)
    predicted = Predicted(view)
    positions = [row(predicted, request)] if "position" in request else None
    top = request.index("count", 10, least=1, most=MAX_CANDIDATES)
    ids = [token.id for token in view.tokens]
    return {
        "what": describe_model.prediction_kind(predicted.what),
        "positions": choices(view, positions, top=top, **sampling_options(request)),
        "masks": [position for position, id in enumerate(ids) if id == mask_token(view)],
    }


def row(predicted: Predicted, request: RequestArgs[Any]) -> int:
    """Returns the row of predictions for the selected position."""
    last = predicted.shape[0] - 1
    return 0 if predicted.what == "classify" else request.index("position", last, most=last)


def check_tokens(view: View) -> Predicted:
    """Returns the predictions of the view; raises if they are not tokens of the vocabulary."""
    predicted = Predicted(view)
    if not predicted.by.tokens:
        raise UnsupportedError(
            "This model has no head for the vocabulary, so it cannot predict tokens."
        )
    return predicted


def sampling_options(request: RequestArgs[Any]) -> dict[str, Any]:
    """Returns the sampling options that the request contains."""
    options: dict[str, Any] = {
        name: request.number(name, 0.0)
        for name in ("temperature", "top_p", "min_p")
        if name in request
    }
    return options | ({"top_k": request.index("top_k")} if "top_k" in request else {})


@route("continue")
def continue_text(session: Session, request: RequestArgs[ContinueRequest]) -> ContinueResponse:
    """Returns the text (or target) with a token appended, or with a mask filled."""
    view, token = session.view(request), request.index("token")
    tokenizer = view.model.tokenizer
    assert tokenizer is not None
    if check_tokens(view).what == "masked":
        position = request.index("position", most=len(view.tokens) - 1)
        return fill_mask(view, request, position, tokenizer.decode([token], special=True))
    ids = [one.id for one in view.tokens if one.id is not None and not one.special]
    before, after = (tokenizer.target_tokenizer.decode(some) for some in (ids, [*ids, token]))
    more = after.removeprefix(before)  # the typed text stays as typed
    if view.model_inputs.encoder:
        return {"text": request.text("text"), "target": (session.target(request) or "") + more}
    return {"text": request.text("text") + more}


def fill_mask(view: View, request: RequestArgs[Any], position: int, word: str) -> ContinueResponse:
    masks = [i for i, token in enumerate(view.tokens) if token.id == mask_token(view)]
    if position not in masks:
        raise InputError(f"The token at {position} is not a mask; choose the position of a mask.")
    number, mask = masks.index(position), view.tokens[position].text
    text, pair = request.text("text"), request.text("pair", "")
    in_text = text.count(mask)
    if number < in_text:
        return {"text": replace_nth(text, mask, number, word), "pair": pair}
    if number < in_text + pair.count(mask):
        return {"text": text, "pair": replace_nth(pair, mask, number - in_text, word)}
    raise InputError(f"The mask at {position} is not written as {mask!r} in the text.")


def replace_nth(text: str, mask: str, number: int, word: str) -> str:
    """Replaces one of the masks of a text by a word."""
    parts = text.split(mask)
    before, after = mask.join(parts[: number + 1]), mask.join(parts[number + 1 :])
    if word.startswith("##"):  # continues the previous word
        before, word = before.rstrip(), word.removeprefix("##")
    return before + word + after


@route("beams")
def beams(session: Session, request: RequestArgs[BeamsRequest]) -> BeamsResponse:
    """Returns the beam search tree."""
    view = session.view(request)
    check_tokens(view)
    nodes, results = beam_tree(
        view,
        request.index("beams", 3, least=2, most=MAX_BEAMS),
        request.index("length", 8, least=1, most=MAX_NEW_TOKENS),
        position=start(view, request),
        length_penalty=request.number("length_penalty", 1.0),
    )
    ends: list[BeamResult] = [
        {
            "node": node,
            "text": one.text,
            "score": one.score,
            "stop": cast(StopReason, one.finish_reason),
        }
        for node, one in results
    ]
    return {"position": start(view, request), "nodes": nodes, "results": ends}


def start(view: View, request: RequestArgs[Any]) -> int:
    """Returns the position that generation continues from."""
    return continued_position(view, request.index("position") if "position" in request else None)


@route("step")
def step(session: Session, request: RequestArgs[StepRequest]) -> StepResponse:
    """Returns a generation step by step, with the size of the key-value cache."""
    view = session.view(request)
    check_tokens(view)
    length = request.index("length", 12, least=1, most=MAX_NEW_TOKENS)
    sample, seed = request.flag("sample"), request.index("seed", 0)
    options = sampling_options(request)
    position = start(view, request)
    steps, stop = generation_trace(
        view, length, position=position, sample=sample, seed=seed, **options
    )
    size = cache_size(view)
    traced: list[TracedStep] = [
        {
            "reused": one.reused,
            "fresh": one.fresh,
            "held": one.held,
            "bytes": one.held * size.token_bytes + size.memory_bytes,
            "chosen": one.chosen,
            "candidates": one.candidates,
            "milliseconds": one.seconds * 1000,
        }
        for one in steps
    ]
    cache: CacheDescription = {
        "stack": stack_name(view.stack),
        "layers": size.layers,
        "key_heads": size.key_heads,
        "head_dim": size.head_dim,
        "bytes_per_token": size.token_bytes,
        "memory": {"tokens": size.memory, "bytes": size.memory_bytes} if size.memory else None,
    }
    return {
        "steps": traced,
        "cache": cache,
        "stop": cast(StopReason, stop),
        "position": position,
    }
