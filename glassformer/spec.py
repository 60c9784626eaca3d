"""Room 1, the description: what a model is made of, as values. Imports no torch.

A model is a `ModelSpec`; the module tree in `core/` mirrors it part by part. Core code
branches on the fields written here, never on a model's name.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from glassformer.errors import GlassformerError

Activation = Literal[
    "relu",
    "relu2",
    "gelu",
    "gelu_tanh",
    "gelu_sigmoid",
    "silu",
    "tanh",
    "sigmoid",
    "mish",
    "linear",
]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise GlassformerError(message)


@dataclass(frozen=True, kw_only=True)
class Norm:
    """Brings a vector back to a common size: LayerNorm, RMSNorm (no centering), or BatchNorm."""

    kind: Literal["layer", "rms", "batch"] = "layer"
    eps: float = 1e-5
    bias: bool = True
    unit_offset: bool = False  # the learned scale is stored as its difference from one


# --- positions -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Table:
    """One vector per absolute position, added to the token's embedding.

    The sinusoid layouts: `interleaved` puts sine and cosine of a frequency side by side (the
    paper of 2017, XLM); `halves` puts all sines before all cosines (Marian, CTRL);
    `inclusive` is `halves` with the slowest frequency exactly 1/10,000 (tensor2tensor, fairseq).
    """

    length: int
    layout: Literal["learned", "interleaved", "halves", "inclusive"] = "learned"
    offset: int = 0  # position 0 is row `offset`
    pad: int | None = None  # this token id takes no position of its own (RoBERTa, fairseq)
    every_layer: bool = False  # each layer has a table of its own, added to what it reads


@dataclass(frozen=True, kw_only=True)
class RotaryScaling:
    """Stretches rotary frequencies so that a model reads further than it was trained to."""

    kind: Literal["linear", "llama3", "yarn"]
    factor: float
    trained_length: int
    low: float = 1.0  # llama3: low_freq_factor; yarn: beta_slow
    high: float = 4.0  # llama3: high_freq_factor; yarn: beta_fast
    magnitude: float = 1.0  # what sines and cosines are multiplied by (yarn)
    truncate: bool = True  # yarn: round the band of mixed frequencies to whole dimensions


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """Turns queries and keys by an angle that grows with the position.

    `halves` pairs dimension j with j + dim/2 (Llama, GPT-NeoX), `pairs` pairs 2j with 2j + 1
    (the paper, GPT-J). Dimensions beyond `dim` are left as they are (partial rotary).
    """

    dim: int
    theta: float = 10_000.0
    pairing: Literal["halves", "pairs"] = "halves"
    scaling: RotaryScaling | None = None


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """T5's bias: one learned number per head and bucket of distance, shared by a stack."""

    buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True


@dataclass(frozen=True, kw_only=True)
class Alibi:
    """A penalty on distance, linear with a fixed slope per head."""


@dataclass(frozen=True, kw_only=True)
class Shaw:
    """A learned vector per clipped distance, scored against the query, in every layer.

    `backward` has vectors only for keys at or before the query; with `per_head` every head
    learns its own (Music Transformer).
    """

    max_distance: int
    backward: bool = False
    per_head: bool = False
    values: bool = True  # also add a learned vector per distance to the values (Shaw et al., 3.2)


@dataclass(frozen=True, kw_only=True)
class Disentangled:
    """DeBERTa's: content scores position (`to_position`) and position scores content.

    A table of 2 * span vectors, one for the stack, has a row for every distance from -span on;
    with `max_distance`, those beyond span / 2 share rows on a log scale. Each layer projects it to
    keys and queries: with its matrices for content (`shared`), or with matrices of their own.
    """

    span: int
    max_distance: int | None = None
    to_position: bool = True
    to_content: bool = True
    shared: bool = True
    key_bias: bool = True  # of the separate matrix for keys
    norm: Norm | None = None


@dataclass(frozen=True, kw_only=True)
class Relative:
    """Transformer-XL's: score (q + u) . k + (q + v) . W r, with r the sinusoids of the distance.

    Every layer has its own W; u and v are the layer's own or `shared` by the stack. With
    `segments` each pair also scores whether both are of one segment: (q + s) . segment (XLNet).
    """

    clamp: int | None = None  # longer distances are taken for this one
    both_ways: bool = False  # keys after the query are seen too, at negative distances
    shared: bool = False
    segments: bool = False


Position = Rotary | Buckets | Alibi | Shaw | Disentangled | Relative

# --- the parts of a block --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Attention:
    heads: int
    head_dim: int
    kv_heads: int | None = None  # fewer than `heads`: grouped; one: shared by all
    scale: float | None = None  # None: 1 / sqrt(head_dim)
    score: Literal["dot", "additive"] = "dot"
    softcap: float | None = None  # scores s become softcap * tanh(s / softcap) (Gemma 2)
    qk_norm: Norm | None = None  # on each head's queries and keys, before positions turn them
    bias: bool = True  # on queries, keys and values
    key_bias: bool = True  # ... though perhaps not on keys
    out_bias: bool = True
    own_global: bool = False  # global tokens are projected by matrices of their own (Longformer)
    compress: int | None = None  # so many neighboring keys, and values, become one by a
    # convolution that moves on by as many (Liu et al., 2018)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _require(
            self.heads > 0 and self.heads % self.key_heads == 0,
            f"{self.heads} attention heads cannot share {self.key_heads} key heads evenly; "
            "choose a number of key heads that divides them.",
        )

    @property
    def key_heads(self) -> int:
        return self.heads if self.kv_heads is None else self.kv_heads


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """Which keys a query may see, by distance in slots: from `left` before it to `right` after.

    None is without limit, so `Pattern()` sees all and `Pattern(right=0)` is causal. With a
    dilation d only every d-th slot, counted from the query, is seen. With `block` a text is cut
    into blocks of so many tokens, and a query sees its own.
    """

    left: int | None = None
    right: int | None = None
    dilation: int = 1
    block: int | None = None


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """BigBird's: a text is cut into blocks of `size` tokens, counted from its own first one.

    A block sees itself and its neighbors, the first and the last block, and `random` more; the
    first and the last see all. Evaluated, as published models are, the random ones are all the
    first block, which so counts 1 + `random` times. Short texts are seen whole.
    """

    size: int
    random: int = 3

    def __post_init__(self) -> None:
        _require(
            self.size > 0 and self.random >= 0,
            f"Blocks of {self.size} tokens, {self.random} of them at random, cannot be made; "
            "choose a size of one or more, and no negative number.",
        )

    @property
    def whole(self) -> int:
        """Up to so many tokens a text is seen whole."""
        return (5 + 2 * self.random) * self.size


CAUSAL = Pattern(right=0)
FULL = Pattern()


@dataclass(frozen=True, kw_only=True)
class FFN:
    width: int
    activation: Activation = "gelu"
    gated: bool = False  # activation(gate) * up, as in GLU, GeGLU, SwiGLU
    bias: bool = True
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Block:
    """One layer. `cross` is attention to another stack's output, between the other two parts."""

    attention: Attention
    ffn: FFN
    norm: Norm
    cross: Attention | None = None
    placement: Literal["pre", "post", "sandwich"] = "pre"
    attention_normed: bool = True  # False: attention reads the stream as it is (ModernBERT's first)
    residual: Literal["serial", "parallel", "parallel_shared_norm"] = "serial"
    position: Position | None = None
    pattern: Pattern | Blocks = FULL
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _require(
            self.residual == "serial" or (self.placement == "pre" and self.cross is None),
            "Parallel sub-layers need the norm before them and no cross-attention; "
            "use residual='serial' otherwise.",
        )
        _require(
            not isinstance(self.position, Relative)
            or (
                isinstance(self.pattern, Pattern)
                and (self.position.both_ways or self.pattern.right == 0)
            ),
            "A pattern that sees later tokens needs their distances too; "
            "use Relative(both_ways=True), or a causal pattern.",
        )
        compresses = self.attention.compress is not None
        _require(
            not compresses
            or (self.pattern == CAUSAL and self.position is None and not self.attention.qk_norm),
            "Compressed keys stand at no distance of their own: attention that compresses needs "
            "the causal pattern, and no position or norm of its keys.",
        )


# --- layers that are no blocks of attention, to compare with ----------------------------------


@dataclass(frozen=True, kw_only=True)
class Recurrent:
    """An LSTM: a state that walks along the text, from left to right or both ways.

    Going both ways, each direction has half of the width. All its dropouts are held still while
    it walks (Merity et al., 2017): a text keeps one mask for all its positions.
    """

    width: int  # what it hands on
    bidirectional: bool = False
    dropout_in: float = 0.0
    weight_dropout: float = 0.0  # on the matrix from state to state
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _require(
            not self.bidirectional or self.width % 2 == 0,
            f"A layer that reads both ways needs an even width, not {self.width}.",
        )


@dataclass(frozen=True, kw_only=True)
class Convolutional:
    """Every position reads `kernel` neighbors: half of them on each side, or causal.

    The result is added to what was read, and the sum multiplied by `scale` (Gehring et al., 2017:
    the root of one half).
    """

    kernel: int
    dilation: int = 1  # d: only every d-th neighbor is read
    causal: bool = False
    activation: Activation = "relu"
    gated: bool = False  # activation(gate) * values; a GLU with a sigmoid
    scale: float = 1.0
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Hop:
    """Reads an external memory once (Sukhbaatar et al., 2015): state + softmax(state keys) values.

    Sentences become keys and values by two embeddings of their own, both made as `memory` says.
    """

    memory: Embed
    project: bool = False  # a matrix on the state before the values are added


Layer = Block | Recurrent | Convolutional | Hop


@dataclass(frozen=True, kw_only=True)
class Adaptive:
    """Frequent words first: clusters of the vocabulary that end before each cutoff and at its end.

    Cluster i has vectors of width // shrink**i, brought to the model's width by a matrix; with
    shrink 1 all share one table (Baevski and Auli; Transformer-XL).
    """

    cutoffs: tuple[int, ...]
    width: int
    shrink: int = 1

    def __post_init__(self) -> None:
        _require(
            list(self.cutoffs) == sorted(set(self.cutoffs)) and 0 not in self.cutoffs,
            f"The cutoffs {self.cutoffs} leave a cluster empty; give them in ascending order.",
        )
        _require(
            self.width >= self.shrink ** len(self.cutoffs) >= 1,
            f"A width of {self.width} cannot shrink by {self.shrink} for each of "
            f"{len(self.cutoffs)} cutoffs; choose a wider one, or fewer cutoffs.",
        )


@dataclass(frozen=True, kw_only=True)
class Embed:
    """Token ids to vectors: the sum of the tables that are there, then norm and dropout.

    In a `bag` a sentence is one vector, the sum of its words'; `ordered` weighs each dimension by
    where in the sentence a word stands (Sukhbaatar et al., 4.1).
    """

    vocabulary: int
    factor: int | None = None  # width of the tables where it is not the model's (ALBERT)
    project: Literal["sum", "token"] = "sum"  # with `factor`: what is brought to the model's width,
    # all of it at the end, or the token's vector alone, without bias, before the others (OPT)
    adaptive: Adaptive | None = None  # a narrower table for every cluster of rarer words
    scale: float = 1.0  # multiplies the token's vector (sqrt(width) in 2017)
    position: Table | None = None
    segments: int = 0
    segments_are_tokens: bool = False  # segment ids look into the token table (GPT)
    zero_padding: bool = False  # padding is embedded as zeros (a convolution would see it)
    languages: int = 0
    bag: Literal["plain", "ordered"] | None = None
    asks: bool = False  # a learned vector for slots that ask what stands there (XLNet's queries)
    norm: Norm | None = None
    dropout: float = 0.0
    word_dropout: float = 0.0  # on whole words, wherever in the batch they stand


class Signal:
    """What is not text: it has no token ids, and nothing that goes with them."""

    vocabulary: ClassVar[int] = 0
    segments: ClassVar[int] = 0
    segments_are_tokens: ClassVar[bool] = False
    languages: ClassVar[int] = 0
    bag: ClassVar[None] = None
    asks: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Frames(Signal):
    """A spectrogram of [band, frame] to vectors: two convolutions over three frames each, GELU
    after both; the second halves the frames. Then positions (Whisper)."""

    bands: int
    position: Table  # `length` is the most vectors there are, half as many as frames
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Patches(Signal):
    """An image of [channel, height, width] to vectors: one learned vector to begin with, then one
    for every patch, row by row. Positions are learned for images of `image`, and interpolated for
    those of another size (ViT)."""

    position: ClassVar[None] = None  # they are laid out in a plane, see `grid`
    channels: int
    image: tuple[int, int]  # height, width
    patch: tuple[int, int]
    blank: bool = False  # has a vector that stands in for patches that are hidden from it
    dropout: float = 0.0

    @property
    def grid(self) -> tuple[int, int]:
        """How many patches there are below and beside each other."""
        return self.image[0] // self.patch[0], self.image[1] // self.patch[1]


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What is kept of earlier segments: the newest `length` slots, or all of them.

    Of each segment the first `reuse` tokens (None: all) are kept. With `blank` the memory is full
    from the start: before a text stand `length` slots of zeros, which are seen (Transformer-XL).
    """

    length: int | None = None
    reuse: int | None = None
    blank: bool = False

    @property
    def limit(self) -> int:
        return sys.maxsize if self.length is None else self.length


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """Looks at neighbors: norm(first layer's output + activation(convolution of embeddings))."""

    kernel: int
    groups: int
    activation: Activation
    norm: Norm


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Embedding and layers. `order` is the order of execution; a layer may stand there often."""

    width: int  # of the embedding; layers may hand on another
    embed: Embed | Frames | Patches
    blocks: tuple[Layer, ...]
    order: tuple[int, ...] = ()
    final_norm: Norm | None = None
    project: int | None = None  # the width it leaves with, where that is not `width` (OPT)
    dropout: float = 0.0  # after the final norm
    layer_dropout: float = 0.0
    convolution: Convolution | None = None  # beside the first layer
    memory: Memory | None = None

    def __post_init__(self) -> None:
        if not self.order:
            object.__setattr__(self, "order", tuple(range(len(self.blocks))))
        _require(
            all(0 <= i < len(self.blocks) for i in self.order),
            f"The order of layers {self.order} names one beyond the {len(self.blocks)} there are.",
        )
        _require(
            len(set(zip(self.order, self.widths, strict=False))) == len(set(self.order)),
            "A layer that stands in the order twice would have to read vectors of two widths.",
        )
        _require(
            not (self.blanks or self.embed.asks)
            or all(isinstance(b, Block) and isinstance(b.position, Relative) for b in self.blocks),
            "Only relative positions know how far away a blank memory is, or a slot that asks; "
            "use Relative.",
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """Of what each layer of the order reads, and at the end of what the last hands on."""
        widths = [self.width]
        for index in self.order:
            layer = self.blocks[index]
            widths.append(layer.width if isinstance(layer, Recurrent) else widths[-1])
        return tuple(widths)

    @property
    def words(self) -> Embed:
        """The embedding of a stack that reads text."""
        assert isinstance(self.embed, Embed)
        return self.embed

    @property
    def blanks(self) -> int:
        """How many slots of an empty memory stand before a text."""
        memory = self.memory
        return memory.length or 0 if memory is not None and memory.blank else 0

    @property
    def scores_segments(self) -> bool:
        """Whether segments are told apart by attention, not in the embedding."""
        positions = (block.position for block in self.attention_blocks)
        return any(isinstance(p, Relative) and p.segments for p in positions)

    @property
    def out_width(self) -> int:
        return self.widths[-1] if self.project is None else self.project

    @property
    def attention_blocks(self) -> tuple[Block, ...]:
        """The layers that are blocks of attention: all or, in a baseline, none."""
        return tuple(layer for layer in self.blocks if isinstance(layer, Block))


# --- heads and the whole ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Transform:
    """A dense layer before a head's output: dense, activation, norm."""

    width: int
    activation: Activation
    norm: Norm | None = None
    bias: bool = True
    residual: bool = False  # a second layer leads back, and its input is added before the norm


@dataclass(frozen=True, kw_only=True)
class Beam:
    """An answer's start first, then its end given the start: so many of each are tried (XLNet)."""

    starts: int
    ends: int
    norm: Norm


@dataclass(frozen=True, kw_only=True)
class Head:
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
    norm: Norm | None = None  # on what was picked
    transform: Transform | None = None
    scale: float = 1.0  # multiplies the hidden state first (T5)
    outputs: int | None = None
    adaptive: Adaptive | None = None  # the outputs are log-probabilities, cluster by cluster
    bias: Literal["none", "learned", "fixed"] = "learned"
    softcap: float | None = None  # logits x become softcap * tanh(x / softcap) (Gemma 2)
    activation: Activation = "linear"
    choices: bool = False
    mixes: int = 0  # reads not the last states but a learned mix of so many: all layers' (SUPERB)
    pixels: int = 0  # the outputs for a patch are a square of pixels with this side
    scalar: bool = False  # the one output is a number per position, not a vector of one
    after_question: bool = False  # the question that a text begins with holds no answer (BigBird)
    beam: Beam | None = None  # the numbers say where an answer starts; its end is searched for
    depth: int | None = None  # the layer, of the order of execution, whose output it reads
    ahead: int = 1  # a language model's: how far off the token is that it predicts
    weight: float = 1.0  # of its loss in training
    dropout_in: float = 0.0  # before the transform
    dropout: float = 0.0  # before the projection

    @property
    def auxiliary(self) -> bool:
        return self.depth is not None or self.ahead > 1


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    pad: int | None = None
    bos: int | None = None
    eos: int | None = None
    start: int | None = None  # what a decoder beside an encoder starts from
    separator: int | None = None  # what ends the question that a text begins with


@dataclass(frozen=True, kw_only=True)
class Init:
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

    encoder: Stack | None = None
    decoder: Stack | None = None
    heads: tuple[Head, ...] = ()
    tie: tuple[tuple[str, str], ...] = ()
    loose: tuple[str, ...] = ()
    tokens: SpecialTokens = field(default_factory=SpecialTokens)
    labels: tuple[str, ...] = ()
    shift_text: bool = False
    start_from_last: bool = False
    global_tokens: Literal["none", "first", "question", "answers"] = "none"
    init: Init = field(default_factory=Init)

    def __post_init__(self) -> None:
        _require(
            self.encoder is not None or self.decoder is not None,
            "A model needs an encoder, a decoder, or both.",
        )
        layers = len(self.last_stack.order)
        _require(
            all(head.depth is None or 0 <= head.depth < layers for head in self.heads),
            f"A head reads a layer beyond the {layers} there are.",
        )

    @property
    def last_stack(self) -> Stack:
        """The stack whose output the heads read."""
        stack = self.encoder if self.decoder is None else self.decoder
        assert stack is not None
        return stack
