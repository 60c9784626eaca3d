"""Heads, and the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from glassformer.errors import GlassformerError
from glassformer.spec.common import Activation, NormSpec, require
from glassformer.spec.embeddings import AdaptiveSpec
from glassformer.spec.stacks import StackSpec


@dataclass(frozen=True, kw_only=True)
class TransformSpec:
    """A dense layer before a head's output: dense, activation, norm."""

    width: int
    activation: Activation
    norm: NormSpec | None = None
    bias: bool = True
    residual: bool = False  # a second layer leads back, and its input is added before the norm


@dataclass(frozen=True, kw_only=True)
class SpanBeamSpec:
    """An answer's start first, then its end given the start: so many of each are tried (XLNet)."""

    starts: int
    ends: int
    norm: NormSpec


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """Reads the last hidden states: pick positions, transform, project.

    `pick`: every position, the first, the last real one, the last end-of-text token, the mean
    or the maximum of the real ones, or the last, the maximum and the mean side by side (`concat`,
    Howard and Ruder, 2018). Without `outputs` the head is a pooler: it gives a vector, no logits.
    With `choices` the rows of one example are rivals and the result is [batch, choice].
    A head on an inner layer (`depth`), or for a token further `ahead` than the next, only helps
    to train the others: it is computed when asked for.
    """

    name: str
    pick: Literal["each", "first", "last", "eos", "mean", "max", "concat"] = "each"
    norm: NormSpec | None = None  # on what was picked
    transform: TransformSpec | None = None
    scale: float = 1.0  # multiplies the hidden state first (T5)
    outputs: int | None = None
    adaptive: AdaptiveSpec | None = None  # the outputs are log-probabilities, cluster by cluster
    bias: Literal["none", "learned", "fixed"] = "learned"
    softcap: float | None = None  # logits x become softcap * tanh(x / softcap) (Gemma 2)
    activation: Activation = "linear"
    choices: bool = False
    mixes: int = 0  # reads not the last states but a learned mix of so many: all layers' (SUPERB)
    pixels: int = 0  # the outputs for a patch are a square of pixels with this side
    scalar: bool = False  # the one output is a number per position, not a vector of one
    after_question: bool = False  # the question that a text begins with holds no answer (BigBird)
    beam: SpanBeamSpec | None = (
        None  # the numbers say where an answer starts; its end is searched for
    )
    depth: int | None = None  # the layer, of the order of execution, whose output it reads
    ahead: int = 1  # a language model's: how far off the token is that it predicts
    weight: float = 1.0  # of its loss in training
    dropout_in: float = 0.0  # before the transform
    dropout: float = 0.0  # before the projection

    @property
    def auxiliary(self) -> bool:
        return self.depth is not None or self.ahead > 1


def head_among(heads: Sequence[HeadSpec], name: str | None, such: str = "") -> HeadSpec:
    """The one that is named, or else the first; `such` says what kind of heads these are."""
    for head in heads:
        if name in (None, head.name):
            return head
    raise GlassformerError(
        f"There is no head {name!r}{such}, only {', '.join(head.name for head in heads)}."
    )


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    pad: int | None = None
    bos: int | None = None
    eos: int | None = None
    start: int | None = None  # what a decoder beside an encoder starts from
    separator: int | None = None  # what ends the question that a text begins with


@dataclass(frozen=True, kw_only=True)
class InitSpec:
    """How a fresh model's weights are drawn.

    `normal`: deviation `std` for all. `xavier`: uniform, by both widths (2017), embeddings normal
    with 1/sqrt(width). `fan_in`: deviation 1/sqrt(inputs), embeddings 1 (T5). The last two are
    multiplied by `std`. `uniform`: from -`std` to `std`. A recurrent layer's are uniform always, up
    to 1/sqrt(its state).
    """

    kind: Literal["normal", "xavier", "fan_in", "uniform"] = "normal"
    std: float = 0.02
    shrink_residual: bool = False  # divide what writes to the residual stream by sqrt(2 layers)


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A whole model. With both stacks the decoder's cross-attention reads the encoder's output.

    `tie` lists pairs of parameters that are one: (the one that is kept, the one that follows).
    Of the followers, those in `loose` are let go where a file has other values for them.
    `shift_text` says that a head on an encoder-decoder reads a plain text, which is also the
    decoder's input, moved right behind the start token, or with `start_from_last` behind the
    text's own last token (mBART, which ends a text with its language). `global_tokens` says which
    see all and are seen by all where the caller does not: the first, the question before the first
    separator, or the answers behind it (Longformer).
    """

    encoder: StackSpec | None = None
    decoder: StackSpec | None = None
    heads: tuple[HeadSpec, ...] = ()
    tie: tuple[tuple[str, str], ...] = ()
    loose: tuple[str, ...] = ()
    tokens: SpecialTokens = field(default_factory=SpecialTokens)
    labels: tuple[str, ...] = ()
    shift_text: bool = False
    start_from_last: bool = False
    global_tokens: Literal["none", "first", "question", "answers"] = "none"
    init: InitSpec = field(default_factory=InitSpec)

    def __post_init__(self) -> None:
        require(
            self.encoder is not None or self.decoder is not None,
            "A model needs an encoder, a decoder, or both.",
        )
        layers = len(self.last_stack.order)
        require(
            all(head.depth is None or 0 <= head.depth < layers for head in self.heads),
            f"A head reads a layer beyond the {layers} there are.",
        )

    @property
    def last_stack(self) -> StackSpec:
        """The stack whose output the heads read."""
        stack = self.encoder if self.decoder is None else self.decoder
        assert stack is not None
        return stack
