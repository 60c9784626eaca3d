"""Page room, questions about the lens: what each layer would say, and who made a logit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from glassformer.inside import View
from glassformer.inside.choices import actual_token, stage_choice
from glassformer.page import facts
from glassformer.page.asked import Asked
from glassformer.page.packed import Packed
from glassformer.page.questions.next_token import MOST, what
from glassformer.page.session import Session

AXES = ("row", "position")
METHODS = ("gradient", "integrated", "rollout")
AFTER = {"embedding": "embed", "attention": "attention", "feed-forward": "ffn"}


def lens(session: Session, asked: Asked) -> Packed:
    view = session.view(asked)
    predicted = what(view)
    found = view.lens(token=wanted(view, asked), top=1)
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
        "what": predicted,
        "stack": view.stack,
        "rows": rows(found.stages),
        "texts": found.words,
    }
    return Packed(told, arrays)


def wanted(view: View, asked: Asked) -> int | list[int] | None:
    """Whose probability is followed: one token, what really comes, or what is said in the end."""
    if isinstance(asked.given.get("token"), int):
        return asked.index("token")
    if asked.choice("token", ("actual", "final"), "actual") == "final":
        return None
    actual = (actual_token(view, place) for place in range(len(view.tokens)))
    return [-1 if token is None else token for token in actual]


def lens_cell(session: Session, asked: Asked) -> dict[str, Any]:
    """The candidates of one row and position."""
    view = session.view(asked)
    what(view)
    position = asked.index("position", most=len(view.tokens) - 1)
    row = asked.index("row")
    top = asked.index("count", 10, least=1, most=MOST)
    return asdict(stage_choice(view, row, position, top))


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


def contributions(session: Session, asked: Asked) -> dict[str, Any]:
    view = session.view(asked)
    what(view)
    position = asked.index("position", most=len(view.tokens) - 1)
    token = asked.index("token") if "token" in asked else None
    against = asked.index("against") if "against" in asked else None
    found = view.contributions(token, position=position, versus=against)
    return {
        "token": found.output,
        "text": found.text,
        "against": None if against is None else {"token": against, "text": found.versus},
        "logit": found.logit,
        "parts": [{**asdict(part), "name": part.name} for part in found.parts],
    }


def saliency(session: Session, asked: Asked) -> dict[str, Any]:
    view, method = session.view(asked), asked.choice("method", METHODS)
    position = asked.index("position", most=len(view.tokens) - 1)
    token = asked.index("token") if "token" in asked else None
    if method == "rollout":
        own = view.rollout().array[position].tolist()
        both = len(facts.sights(view.model.spec)) == 3
        other = view.cross.rollout().array[position].tolist() if both else None
        sides = {"encoder": other, "decoder": None, view.stack: own}
        return {"token": None, "text": None, **sides}
    find = view.gradient_x_input if method == "gradient" else view.integrated_gradients
    found = find(token, position=position)
    other = None if found.source is None else found.source.tolist()
    sides = {"encoder": other, "decoder": None, view.stack: found.values.tolist()}
    return {"token": found.output, "text": found.text, **sides}
