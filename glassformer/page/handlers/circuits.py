"""Handlers for circuits and the composition of heads."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glassformer.inside import circuit as find_circuit
from glassformer.inside import composition as find_composition
from glassformer.inside.weights.circuits import SIDES
from glassformer.inside.weights.composition import KINDS
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import Session

STACKS = ("encoder", "decoder")


def circuit(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the strongest directions of a circuit, with their tokens."""
    model = session.model(asked.text("model"))
    which = asked.choice("which", tuple(SIDES), "ov")
    found = find_circuit(
        model,
        asked.index("layer"),
        asked.index("head") if which in ("ov", "qk") else None,
        which,
        stack=asked.choice("stack", STACKS),
        cross=asked.flag("cross") and which in ("ov", "qk"),
    )
    ends = {
        name: [
            {"toward": [*map(asdict, toward)], "away": [*map(asdict, away)]}
            for toward, away in end.words
        ]
        for name, end in found.ends.items()
    }
    return {"which": which, "strengths": found.strengths.tolist(), "ends": ends}


def composition(session: Session, asked: RequestArgs) -> BinaryResponse:
    """Returns the composition scores of all heads, and the ten highest pairs."""
    model = session.model(asked.text("model"))
    kind = asked.choice("kind", tuple(KINDS), "k")
    found = find_composition(model, kind, asked.choice("stack", STACKS))
    heads = [{"layer": layer, "head": head} for layer, head in found.heads]
    top = [
        {"from": one, "to": other, "score": score}
        for one, other, score in (
            (found.heads.index(one), found.heads.index(other), score)
            for one, other, score in found.top(10)
        )
    ]
    return BinaryResponse(
        {"heads": heads, "top": top}, {"scores": (found.scores.array, ("from", "to"))}
    )
