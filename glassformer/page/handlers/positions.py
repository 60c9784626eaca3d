"""Handler for the position information of a model."""

from __future__ import annotations

from typing import Any

from glassformer.inside.weights.positions import positions as pictures
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import Session

MOST = 1024


def positions(session: Session, asked: RequestArgs) -> BinaryResponse:
    """Returns the position information of a model, for a text if one is given."""
    model = session.model(asked.text("model"))
    length = asked.index("length", 64, least=1, most=MOST)
    told: list[dict[str, Any]] = []
    arrays = {}
    side = None
    if "text" in asked:  # some information depends on a text
        side = session.view(asked)
    for number, picture in enumerate(pictures(model, length, side)):
        for part, array in picture.arrays.items():
            name = f"{number}.{part}"
            arrays[name] = (array.array.float(), array.axes)
            told.append(
                {
                    "array": name,
                    "stack": picture.stack,
                    "kind": picture.kind,
                    "part": part,
                    "title": picture.title,
                    "layers": list(picture.layers),
                    "axes": list(array.axes),
                    "facts": picture.facts,
                }
            )
    return BinaryResponse({"pictures": told}, arrays)
