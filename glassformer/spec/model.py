"""Specs of heads, special tokens, weight initialization and the whole model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from glassformer.errors import ConfigError
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
    residual: bool = False  # a second layer projects back; the input is added before the norm


@dataclass(frozen=True, kw_only=True)
class SpanBeamSpec:
    """Beam search for answer spans: `starts` start positions, then `ends` ends for each (XLNet)."""

    starts: int
    ends: int
    norm: NormSpec


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """A head on the last hidden states: selects positions, transforms and projects them.

    `pooling` selects every position ("each"), the first, the last real one, the last end-of-text
    token ("eos"), the mean or the maximum over the real ones, or the last, the maximum and the mean
    concatenated ("concat"; Howard and Ruder, 2018). Without `num_outputs` the head is a pooler,
    which returns a vector and no logits. With `multiple_choice` the rows of one example are
    alternatives, and the result is [batch, choice]. A head on an inner layer (`depth`), for a
    token further than the next (`prediction_offset`), or on the encoder below a decoder (`stack`)
    is an auxiliary training objective, computed only on request.
    """

    name: str
    pooling: Literal["each", "first", "last", "eos", "mean", "max", "concat"] = "each"
    norm: NormSpec | None = None  # on the selected vectors
    transform: TransformSpec | None = None
    scale: float = 1.0  # multiplies the hidden state first (T5)
    num_outputs: int | None = None
    adaptive: AdaptiveSpec | None = None  # the outputs are log-probabilities, by cluster
    bias: Literal["none", "learned", "fixed"] = "learned"
    softcap: float | None = None  # logits x become softcap * tanh(x / softcap) (Gemma 2)
    activation: Activation = "linear"
    multiple_choice: bool = False
    num_weighted_layers: int = 0  # reads a learned mix of this many states: all layers' (SUPERB)
    pixel_shuffle: int = 0  # the outputs for a patch are a square of pixels of this side
    scalar: bool = False  # returns one number per position, not a vector of size one
    after_question: bool = False  # no answer in the question that starts the text (BigBird)
    beam: SpanBeamSpec | None = (
        None  # the outputs score answer starts; ends are found by beam search
    )
    depth: int | None = None  # the layer, by execution order, whose output it reads
    prediction_offset: int = 1  # for language models: the distance to the predicted token
    stack: Literal["last", "encoder"] = "last"  # whose output it reads (CTC: the encoder's)
    loss_weight: float = 1.0  # of its loss in training
    dropout_in: float = 0.0  # before the transform
    dropout: float = 0.0  # before the projection

    @property
    def auxiliary(self) -> bool:
        """Whether the head is used only in training."""
        return self.depth is not None or self.prediction_offset > 1 or self.stack == "encoder"


def head_among(heads: Sequence[HeadSpec], name: str | None, such: str = "") -> HeadSpec:
    """Returns the named head, or the first if `name` is None.

    Args:
        heads: The heads to choose from.
        name: Name of the head.
        such: A description of these heads for the error message.
    """
    for head in heads:
        if name in (None, head.name):
            return head
    raise ConfigError(
        f"There is no head {name!r}{such}, only {', '.join(head.name for head in heads)}."
    )


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Ids of special tokens; None if the model has no such token."""

    pad: int | None = None
    bos: int | None = None
    eos: int | None = None
    start: int | None = None  # first decoder token of an encoder-decoder
    separator: int | None = None  # ends the question at the start of a text


@dataclass(frozen=True, kw_only=True)
class InitSpec:
    """How the weights of a new model are initialized.

    - "normal": standard deviation `std` for all.
    - "xavier": uniform, by both widths (2017); embeddings normal with 1/sqrt(width).
    - "fan_in": standard deviation 1/sqrt(inputs); embeddings 1 (T5).
    - "uniform": from -`std` to `std`.

    "xavier" and "fan_in" are multiplied by `std`. Recurrent layers are always uniform, up to
    1/sqrt(state width).
    """

    kind: Literal["normal", "xavier", "fan_in", "uniform"] = "normal"
    std: float = 0.02
    shrink_residual: bool = False  # divide writers to the residual stream by sqrt(2 layers)


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A whole model. If it has both stacks, the decoder cross-attends to the encoder's output.

    Attributes:
        encoder: The encoder stack.
        decoder: The decoder stack.
        heads: The heads on the last stack.
        tied_weights: Pairs of tied parameters: (the one that is kept, the one that shares
            its storage).
        optional_ties: Tied parameters that are untied if a file has different values for them.
        tokens: Ids of special tokens.
        labels: Class labels.
        shift_right: A head on an encoder-decoder reads a plain text, which is also the decoder's
            input, shifted right after the start token.
        decoder_start: The first token of the shifted text: the start token, or the text's own
            last token (mBART, which ends a text with its language).
        global_tokens: Which tokens have global attention by default: the first, the question before
            the first separator, or the answers after it (Longformer).
        init: Weight initialization.
    """

    encoder: StackSpec | None = None
    decoder: StackSpec | None = None
    heads: tuple[HeadSpec, ...] = ()
    tied_weights: tuple[tuple[str, str], ...] = ()
    optional_ties: tuple[str, ...] = ()
    tokens: SpecialTokens = field(default_factory=SpecialTokens)
    labels: tuple[str, ...] = ()
    shift_right: bool = False
    decoder_start: Literal["start_token", "last_token"] = "start_token"
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
        require(
            all(head.stack == "last" or self.is_encoder_decoder for head in self.heads),
            "A head on the encoder is for a model that also has a decoder; elsewhere the encoder "
            "is the last stack.",
        )
        require(
            all(head.stack == "last" or head.pooling == "each" for head in self.heads),
            "A head on the encoder reads every position; it cannot pool them.",
        )

    @property
    def last_stack(self) -> StackSpec:
        """The stack whose output the heads read."""
        stack = self.encoder if self.decoder is None else self.decoder
        assert stack is not None
        return stack

    @property
    def lm_head(self) -> HeadSpec | None:
        """The first head with outputs at every position; None if there is none.

        In a model that generates, these are the logits of the next token.
        """
        found = (
            head
            for head in self.heads
            if head.pooling == "each" and head.num_outputs is not None and head.stack == "last"
        )
        return next(found, None)

    @property
    def is_encoder_decoder(self) -> bool:
        return self.encoder is not None and self.decoder is not None

    @property
    def is_causal(self) -> bool:
        """Whether the model is a decoder alone, which predicts the next token."""
        return self.encoder is None
