"""Handlers for next-token candidates, beam search and step-by-step generation."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glassformer.errors import InputError, UnsupportedError
from glassformer.inside import View
from glassformer.inside.attribute.predictions import Predicted, mask_token
from glassformer.inside.generation_trace import beam_tree, cache_size, generation_trace
from glassformer.inside.intervene.choices import choices
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import Session

LONGEST = 64  # maximum number of new tokens
MOST = 400  # maximum number of candidates
BEAMS = 16


def next_tokens(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the output distributions at one or all positions."""
    view = session.view(asked)
    said = Predicted(view)
    places = [row(said, asked)] if "position" in asked else None
    top = asked.index("count", 10, least=1, most=MOST)
    found = choices(view, places, top=top, **knobs(asked))
    ids = [token.id for token in view.tokens]
    return {
        "what": said.what,
        "positions": [asdict(one) for one in found],
        "masks": [place for place, id in enumerate(ids) if id == mask_token(view)],
    }


def row(said: Predicted, asked: RequestArgs) -> int:
    """Returns the row of predictions for the selected position."""
    last = said.shape[0] - 1
    return 0 if said.what == "classify" else asked.index("position", last, most=last)


def tokens_of(view: View) -> Predicted:
    """Returns the predictions of the view; raises if they are not tokens of the vocabulary."""
    said = Predicted(view)
    if not said.by.tokens:
        raise UnsupportedError(
            "This model has no head for the vocabulary, so no token can follow or fill a gap."
        )
    return said


def knobs(asked: RequestArgs) -> dict[str, Any]:
    """Returns the sampling settings that the request contains."""
    found: dict[str, Any] = {
        name: asked.number(name, 0.0) for name in ("temperature", "top_p", "min_p") if name in asked
    }
    return found | ({"top_k": asked.index("top_k")} if "top_k" in asked else {})


def continued(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the text (or target) with a token appended, or with a mask filled."""
    view, token = session.view(asked), asked.index("token")
    tokenizer = view.model.tokenizer
    assert tokenizer is not None
    if tokens_of(view).what == "masked":
        place = asked.index("position", most=len(view.tokens) - 1)
        return filled(view, asked, place, tokenizer.decode([token], special=True))
    ids = [one.id for one in view.tokens if one.id is not None and not one.special]
    before, after = (tokenizer.target.decode(some) for some in (ids, [*ids, token]))
    more = after.removeprefix(before)  # the typed text stays as typed
    if view.reading.encoder:
        return {"text": asked.text("text"), "target": (session.target(asked) or "") + more}
    return {"text": asked.text("text") + more}


def filled(view: View, asked: RequestArgs, place: int, word: str) -> dict[str, Any]:
    masks = [i for i, token in enumerate(view.tokens) if token.id == mask_token(view)]
    if place not in masks:
        raise InputError(f"The token at {place} is no mask, so nothing is missing there.")
    number, mask = masks.index(place), view.tokens[place].text
    texts = {"text": asked.text("text"), "pair": asked.text("pair", "")}
    for name, text in texts.items():
        parts = text.split(mask)
        if number < len(parts) - 1:
            before, after = mask.join(parts[: number + 1]), mask.join(parts[number + 1 :])
            if word.startswith("##"):  # continues the previous word
                before, word = before.rstrip(), word.removeprefix("##")
            return {**texts, name: before + word + after}
        number -= len(parts) - 1
    raise InputError(f"The mask at {place} is not written as {mask!r} in the text.")


def beams(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the beam search tree."""
    view = session.view(asked)
    tokens_of(view)
    nodes, results = beam_tree(
        view,
        asked.index("beams", 3, least=2, most=BEAMS),
        asked.index("length", 8, least=1, most=LONGEST),
        length_penalty=asked.number("length_penalty", 1.0),
    )
    ends = [
        {"node": node, "text": one.text, "score": one.score, "stop": one.stop}
        for node, one in results
    ]
    return {"nodes": [asdict(node) for node in nodes], "results": ends}


def step(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns a generation step by step, with the size of the key-value cache."""
    view = session.view(asked)
    tokens_of(view)
    length = asked.index("length", 12, least=1, most=LONGEST)
    sample, seed = asked.flag("sample"), asked.index("seed", 0)
    steps, stop = generation_trace(view, length, sample=sample, seed=seed, **knobs(asked))
    size = cache_size(view)
    told = [
        {
            "reused": one.reused,
            "fresh": one.fresh,
            "held": one.held,
            "bytes": one.held * size.token_bytes + size.memory_bytes,
            "chosen": asdict(one.chosen),
            "candidates": [asdict(each) for each in one.candidates],
            "milliseconds": one.seconds * 1000,
        }
        for one in steps
    ]
    cache = {
        "stack": view.stack,
        "layers": size.layers,
        "key_heads": size.key_heads,
        "head_dim": size.head_dim,
        "bytes_a_token": size.token_bytes,
        "memory": {"tokens": size.memory, "bytes": size.memory_bytes} if size.memory else None,
    }
    return {"steps": told, "cache": cache, "stop": stop}
