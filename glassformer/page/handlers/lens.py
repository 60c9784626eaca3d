"""Handlers for lenses, contributions to a logit, and saliency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from glassformer.errors import UnsupportedError
from glassformer.inside import View
from glassformer.inside.attribute.predictions import Predicted
from glassformer.inside.intervene.choices import stage_choice
from glassformer.page import describe_model
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.handlers.next_token import MOST, row
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import Session

AXES = ("row", "position")
METHODS = ("gradient", "integrated", "rollout")
AFTER = {"embedding": "embed", "attention": "attention", "feed-forward": "ffn"}


def lens(session: Session, asked: RequestArgs) -> BinaryResponse:
    """Returns the logit lens or tuned lens of a text."""
    view = session.view(asked)
    said = check_lens(view)
    tuned = session.tuned(asked)
    found = view.lens(token=wanted(said, asked), top=1, head=said.head.name, tuned=tuned)
    arrays = {
        "best": (found.best.array[..., 0].int(), AXES),
        "probability": (found.best_probability.array[..., 0], AXES),
        "chosen": (found.probability.array, AXES),
        "logit": (found.logit.array, AXES),
        "rank": (found.rank.array.int(), AXES),
        "entropy": (found.entropy.array, AXES),
        "divergence": (found.divergence.array, AXES),
        "norm": (found.norm.array, AXES),
        "wanted": (found.chosen.int(), ("position",)),
    }
    told = {
        "what": said.what,
        "stack": view.stack,
        "rows": rows(found.stages),
        "texts": found.words,
    }
    return BinaryResponse(told, arrays)


def check_lens(view: View) -> Predicted:
    """Returns the predictions of the view; raises if its head has no lens."""
    said = Predicted(view)
    if not said.by.lens:
        raise UnsupportedError(
            "This model's head says nothing at a single position, so there is no logit lens: no "
            "layer's stream there could be read as if it were the last."
        )
    return said


def wanted(said: Predicted, asked: RequestArgs) -> int | list[int] | None:
    """Returns the token whose probability the lens follows.

    This is one token, the actual token of every position, or None for the final prediction.
    """
    if isinstance(asked.given.get("token"), int):
        return asked.index("token")
    if asked.choice("token", ("actual", "final"), "actual") == "final":
        return None
    actual = (said.actual(place) for place in range(len(said.view.tokens)))
    return [-1 if token is None else token for token in actual]


def lens_cell(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the candidates of one stage and position."""
    view = session.view(asked)
    check_lens(view)
    position = asked.index("position", most=len(view.tokens) - 1)
    top = asked.index("count", 10, least=1, most=MOST)
    return asdict(stage_choice(view, asked.index("row"), position, top, session.tuned(asked)))


def rows(stages: Sequence[tuple[int | None, str]]) -> list[dict[str, Any]]:
    return [
        {
            "name": "embed"
            if layer is None
            else f"{layer}.{'mid' if part == 'attention' else 'post'}",
            "layer": layer,
            "after": AFTER[part],
        }
        for layer, part in stages
    ]


def contributions(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the contributions to a logit."""
    view = session.view(asked)
    said = Predicted(view)
    found = view.contributions(**logit_of(said, asked))
    against = asked.index("against") if "against" in asked else None
    return {
        **outcome(said, asked),
        "against": None if against is None else {"token": against, "text": found.versus},
        "logit": found.logit,
        "parts": [{**asdict(part), "name": part.name} for part in found.parts],
    }


def saliency(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the attribution of a logit to the tokens, or attention rollout."""
    view, method = session.view(asked), asked.choice("method", METHODS)
    if method == "rollout":
        at = looking(view, asked)
        own = view.rollout().array[at].mean(0).tolist()
        both = len(describe_model.sights(view.model.spec)) == 3
        other = view.cross.rollout().array[at].mean(0).tolist() if both else None
        sides = {"encoder": other, "decoder": None, view.stack: own}
        return {"token": None, "text": None, **sides}
    find = view.gradient_x_input if method == "gradient" else view.integrated_gradients
    said = Predicted(view)
    found = find(**logit_of(said, asked))
    other = None if found.source is None else found.source.tolist()
    sides = {"encoder": other, "decoder": None, view.stack: found.values.tolist()}
    return {**outcome(said, asked), **sides}


def logit_of(said: Predicted, asked: RequestArgs) -> dict[str, Any]:
    """Returns the requested logit as keyword arguments of the functions of `inside`."""
    token = asked.index("token") if "token" in asked else None
    position, output = said.logit_place(row(said, asked), token)
    found = {"token": output, "position": position, "head": said.head.name}
    if "against" not in asked:
        return found
    if said.what == "span":
        raise UnsupportedError("Where an answer starts or ends is asked of one place at a time.")
    return {**found, "versus": asked.index("against")}


def outcome(said: Predicted, asked: RequestArgs) -> dict[str, Any]:
    token = asked.index("token") if "token" in asked else said.best(row(said, asked))
    return {"token": token, "text": said.text(token)}


def looking(view: View, asked: RequestArgs) -> list[int]:
    """Returns the positions the prediction is read from.

    For a model that predicts nothing, this is the selected position.
    """
    if describe_model.said_by(view.model, view.head)[0] is None:
        return [asked.index("position", most=len(view.tokens) - 1)]
    said = Predicted(view)
    return said.read_at(row(said, asked), asked.index("token") if "token" in asked else None)
