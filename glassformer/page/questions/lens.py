"""Page room, questions about the lens: what each layer would say, and who made a logit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any


from glassformer.inside.lens import Lens
from glassformer.page.asked import Asked
from glassformer.page.packed import Packed
from glassformer.page.questions.next_token import what
from glassformer.page.session import Session

AXES = ("row", "position")
AFTER = {"embedding": "embed", "attention": "attention", "feed-forward": "ffn"}


def lens(session: Session, asked: Asked) -> Packed:
    view = session.view(asked)
    predicted = what(view)
    token = asked.given.get("token")
    found = view.lens(token=token if isinstance(token, int) else None, top=1)
    arrays = {
        "best": (found.best.array[..., 0].int(), AXES),
        "probability": (found.best_probability.array[..., 0].float(), AXES),
        "chosen": (found.probability.array.float(), AXES),
        "rank": (found.rank.array.int(), AXES),
        "entropy": (found.entropy.array.float(), AXES),
        "divergence": (found.divergence.array.float(), AXES),
        "norm": (found.norm.array.float(), AXES),
        "wanted": (found.chosen.int(), ("position",)),
    }
    facts = {"what": predicted, "stack": view.stack, "rows": rows(found), "texts": found.words}
    return Packed(facts, arrays)


def rows(found: Lens) -> list[dict[str, Any]]:
    return [
        {
            "name": "embed" if layer is None else f"{layer}.{'mid' if part == 'attention' else 'post'}",
            "layer": layer,
            "after": AFTER[part],
        }
        for layer, part in found.stages
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
