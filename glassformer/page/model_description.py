"""Types of the description of a model's structure."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from glassformer.page.request_types import AttentionType, StackName

LayerKind = Literal["attention", "recurrent", "convolutional", "hop"]
ModelKind = Literal["decoder", "encoder", "encoder-decoder"]
# What a row of predictions is, and its outcomes (see inside/attribute/predictions.py). "next" and
# "masked": a position, tokens of the vocabulary; "tag": a position, labels; "classify": the whole
# text, labels; "span": 0 for the start of an answer and 1 for its end, positions.
PredictionKind = Literal["next", "masked", "tag", "classify", "span"]


class NormDescription(TypedDict):
    kind: str
    eps: float
    bias: bool


class AttentionDescription(TypedDict):
    heads: int
    key_heads: int
    head_dim: int
    scale: float  # of the scores
    softcap: float | None
    qk_norm: bool
    score: str


class FeedForwardDescription(TypedDict):
    width: int
    activation: str
    gated: bool


class PatternDescription(TypedDict):
    """Which keys a query may attend to.

    Of BigBird's block pattern, `random` is the number of random blocks and `whole` the number of
    tokens up to which attention is full.
    """

    kind: Literal["full", "causal", "window", "blocks"]
    left: int | None
    right: int | None
    dilation: int
    block: int | None
    random: int | None
    whole: int | None


class LayerDescription(TypedDict):
    """A layer; `block` is the index of its weights.

    The fields after `kind` are None unless `kind` is "attention".
    """

    block: int
    kind: LayerKind
    attention: AttentionDescription | None
    cross: AttentionDescription | None
    ffn: FeedForwardDescription | None
    norm: NormDescription | None
    placement: str | None
    residual: str | None
    position: dict[str, Any] | None  # "kind", and the fields of the position's spec
    pattern: PatternDescription | None


class EmbeddingDescription(TypedDict):
    scale: float
    position: dict[str, Any] | None
    segments: int
    norm: NormDescription | None
    factor: int | None


class StackDescription(TypedDict):
    """A stack; `context` is the largest number of tokens, None if there is no limit."""

    width: int
    vocabulary: int
    context: int | None
    reads: Literal["text", "sound", "images"]
    embed: EmbeddingDescription
    layers: list[LayerDescription]
    final_norm: NormDescription | None


class StackDescriptions(TypedDict):
    encoder: NotRequired[StackDescription]
    decoder: NotRequired[StackDescription]


class HeadDescription(TypedDict):
    name: str
    kind: str
    outputs: int | None
    labels: list[str]


class PredictionDescription(TypedDict):
    """What a head predicts.

    Attributes:
        what: The kind of prediction, None if there is none.
        why: The reason why there is none.
        labels: The names of the outcomes, if these are labels.
        several: Whether each label is predicted independently.
        number: Whether the logit itself is the prediction (regression).
        ends: For "span" 2, or 1 if only the start is predicted.
        lens: Whether there is a logit lens.
    """

    what: PredictionKind | None
    why: str | None
    labels: list[str]
    several: bool
    number: bool
    ends: int
    lens: bool


class MaskToken(TypedDict):
    token: int
    text: str


class OutputDescription(TypedDict):
    """What the page can show for a head.

    `tuned` tells that there is a tuned lens for it, `writes` that it generates text, and `proposes`
    that the model can propose other tokens for a place of the text, for swaps.
    """

    head: str | None
    predicts: PredictionDescription
    tuned: bool
    writes: bool
    mask: MaskToken | None
    proposes: bool


class ReadableInputs(TypedDict):
    pair: bool
    target: bool
    empty: bool  # then it reads its start token alone


class StructureResponse(TypedDict):
    """The structure of a model; the heads read the output of the stack `last`."""

    model: str
    kind: ModelKind
    architecture: str
    parameters: int
    reads: ReadableInputs
    attention_types: list[AttentionType]
    stacks: StackDescriptions
    last: StackName
    heads: list[HeadDescription]
    outputs: list[OutputDescription]
    tie: list[tuple[str, str]]
