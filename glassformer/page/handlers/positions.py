"""Handler for the position information of a model."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict, cast

from glassformer.inside.weights.positions import positions as position_pictures
from glassformer.page.binary_response import BinaryResponse
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import ModelRequest, StackName, stack_name
from glassformer.page.routes import route
from glassformer.page.session import Session

MAX_LENGTH = 1024
PictureKind = Literal["table", "bias", "rotary", "distances", "terms", "mask"]


class PositionsRequest(ModelRequest):
    """With a text, `length` is its length, and information that depends on a text is added."""

    length: NotRequired[int]
    text: NotRequired[str]
    pair: NotRequired[str]
    target: NotRequired[str]
    output: NotRequired[str]


class PositionPicture(TypedDict):
    """One array of position information.

    `part` is its name within the kind; arrays of one kind and layers belong together. `parameters`
    are for captions.
    """

    array: str
    stack: StackName
    kind: PictureKind
    part: str
    title: str
    layers: list[int]
    axes: list[str]
    parameters: dict[str, Any]


class PositionsMetadata(TypedDict):
    pictures: list[PositionPicture]


class PositionsResponse(BinaryResponse[PositionsMetadata, str]):
    """The position information of a model; `PositionPicture.array` names the arrays."""


@route("positions")
def positions(session: Session, request: RequestArgs[PositionsRequest]) -> PositionsResponse:
    """Returns the position information of a model, for a text if one is given."""
    model = session.model(request.text("model"))
    length = request.index("length", 64, least=1, most=MAX_LENGTH)
    view = session.view(request) if "text" in request else None
    pictures: list[PositionPicture] = []
    arrays = {}
    for number, picture in enumerate(position_pictures(model, length, view)):
        for part, array in picture.arrays.items():
            name = f"{number}.{part}"
            arrays[name] = (array.array.float(), array.axes)
            pictures.append(
                {
                    "array": name,
                    "stack": stack_name(picture.stack),
                    "kind": cast(PictureKind, picture.kind),
                    "part": part,
                    "title": picture.title,
                    "layers": list(picture.layers),
                    "axes": list(array.axes),
                    "parameters": picture.facts,
                }
            )
    return PositionsResponse({"pictures": pictures}, arrays)
