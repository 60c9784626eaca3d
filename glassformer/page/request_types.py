"""Types of the request fields that several routes share.

A `position` is an index into the tokens of a stack, a `token` is an id of the vocabulary, and a
`layer` is a depth of execution (ALBERT runs one block twelve times: twelve layers).
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

StackName = Literal["encoder", "decoder"]
# Self-attention of the encoder or decoder, or attention from the decoder to the encoder.
AttentionType = Literal["encoder", "decoder", "cross"]

FromText = TypedDict("FromText", {"from": str})


class ModelRequest(TypedDict):
    """A request about a model: an id of `models`, or of one of its checkpoints."""

    model: str


class RunRequest(ModelRequest):
    """A request about a model that reads a text."""

    text: str
    pair: NotRequired[str]  # a second sentence, if `StructureResponse.reads.pair`
    target: NotRequired[str]  # the decoder's text; without it the model generates one
    output: NotRequired[str]  # the head whose outputs are used; by default the first
    edits: NotRequired[list[Edit]]


class EditedRunRequest(ModelRequest):
    """A request that compares a run with and without edits."""

    text: str
    pair: NotRequired[str]
    target: NotRequired[str]
    output: NotRequired[str]
    edits: list[Edit]


class SamplingOptions(TypedDict):
    """Sampling options, as in `generate`."""

    temperature: NotRequired[float]
    top_k: NotRequired[int]
    top_p: NotRequired[float]
    min_p: NotRequired[float]


class ScaleEdit(TypedDict):
    """Multiplies an activation by a factor; 0 ablates heads or a layer."""

    kind: Literal["scale"]
    at: str  # name of a hook point, shell patterns allowed
    heads: NotRequired[list[int] | None]
    positions: NotRequired[list[int] | None]
    factor: float


class AddEdit(TypedDict):
    """Adds a vector to an activation."""

    kind: Literal["add"]
    at: str
    vector: list[float]
    positions: NotRequired[list[int] | None]
    factor: NotRequired[float]


class RemoveEdit(TypedDict):
    """Removes the component of an activation along a vector."""

    kind: Literal["remove"]
    at: str
    vector: list[float]
    positions: NotRequired[list[int] | None]
    factor: NotRequired[float]


class ReplaceEdit(TypedDict):
    """Replaces an activation by a vector."""

    kind: Literal["replace"]
    at: str
    vector: list[float]
    heads: NotRequired[list[int] | None]
    positions: NotRequired[list[int] | None]


class PatchEdit(FromText):
    """Replaces an activation by its value for another text.

    Positions are pairs (in this text, in the other text); None is every position.
    """

    kind: Literal["patch"]
    at: str
    positions: NotRequired[list[tuple[int, int]] | None]
    heads: NotRequired[list[int] | None]


class SteerEdit(TypedDict):
    """Adds factor * (mean activation over `toward` - mean activation over `away`)."""

    kind: Literal["steer"]
    at: str
    toward: str
    away: str
    positions: NotRequired[list[int] | None]
    factor: float


Edit = ScaleEdit | AddEdit | RemoveEdit | ReplaceEdit | PatchEdit | SteerEdit


def stack_name(name: str) -> StackName:
    """Returns the name of a stack with its literal type."""
    return "encoder" if name == "encoder" else "decoder"
