"""Specs of Transformer blocks and their parts, and of the baseline layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from glassformer.spec.common import (
    Activation,
    NormSpec,
    require,
    require_dropout,
    require_sizes,
)
from glassformer.spec.embeddings import TokenEmbeddingSpec
from glassformer.spec.positions import PositionSpec, RelativePositionSpec, RotarySpec


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    """Multi-head attention."""

    heads: int
    head_dim: int
    kv_heads: int | None = None  # fewer than `heads`: grouped-query; one: multi-query
    scale: float | None = None  # None: 1 / sqrt(head_dim)
    score: Literal["dot", "additive"] = "dot"
    softcap: float | None = None  # scores s become softcap * tanh(s / softcap) (Gemma 2)
    qk_norm: NormSpec | None = None  # on queries and keys per head, before rotary positions
    bias: bool = True  # on queries, keys and values
    key_bias: bool = True  # False: no bias on keys, even if `bias` is set
    out_bias: bool = True
    separate_global_projections: bool = False  # separate projections for global tokens (Longformer)
    compression_factor: int | None = None  # kernel size and stride of a convolution that merges
    # neighboring keys, and values, into one (Liu et al., 2018)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_sizes(self, "heads", "head_dim", "kv_heads", "compression_factor")
        require_dropout(self, "dropout")
        require(
            self.heads > 0 and self.heads % self.key_heads == 0,
            f"{self.heads} attention heads cannot share {self.key_heads} key heads evenly; "
            "choose a number of key heads that divides them.",
        )

    @property
    def key_heads(self) -> int:
        """The number of key and value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads


@dataclass(frozen=True, kw_only=True)
class AttentionPattern:
    """Which keys a query attends to: those from `left` slots before it to `right` slots after it.

    None means no limit: `AttentionPattern()` attends to all keys, and with right=0 it is causal.
    With a dilation d only every d-th slot, counted from the query, is visible. With `block` the
    text is cut into blocks of that many tokens, and a query attends only to its own block.
    """

    left: int | None = None
    right: int | None = None
    dilation: int = 1
    block: int | None = None

    def __post_init__(self) -> None:
        require_sizes(self, "dilation", "block")


@dataclass(frozen=True, kw_only=True)
class BlockSparsePattern:
    """BigBird's block-sparse attention.

    A text is cut into blocks of `block_size` tokens, counted from the text's own first token. A
    block attends to itself and its neighbors, the first and the last block, and `num_random_blocks`
    more; the first and the last block attend to all. In evaluation, as in published models, the
    random blocks are all the first block, which therefore counts 1 + `num_random_blocks` times.
    Short texts use full attention.
    """

    block_size: int
    num_random_blocks: int = 3

    def __post_init__(self) -> None:
        require(
            self.block_size > 0 and self.num_random_blocks >= 0,
            f"Blocks of {self.block_size} tokens, {self.num_random_blocks} of them at random, "
            "cannot be made; choose a size of one or more, and no negative number.",
        )

    @property
    def full_attention_length(self) -> int:
        """The maximum length in tokens of a text that uses full attention."""
        return (5 + 2 * self.num_random_blocks) * self.block_size


CAUSAL = AttentionPattern(right=0)
FULL = AttentionPattern()


@dataclass(frozen=True, kw_only=True)
class FeedForwardSpec:
    """The feed-forward layer."""

    width: int
    activation: Activation = "gelu"
    gated: bool = False  # activation(gate) * up, as in GLU, GeGLU, SwiGLU
    bias: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_sizes(self, "width")
        require_dropout(self, "dropout")


@dataclass(frozen=True, kw_only=True)
class BlockSpec:
    """One Transformer layer: self-attention, optional cross-attention, feed-forward.

    `cross` attends to the encoder's output, between self-attention and feed-forward.
    """

    attention: AttentionSpec
    ffn: FeedForwardSpec
    norm: NormSpec
    cross: AttentionSpec | None = None
    placement: Literal["pre", "post", "sandwich"] = "pre"
    attention_normed: bool = True  # False: no norm before attention (ModernBERT's first)
    residual: Literal["serial", "parallel", "parallel_shared_norm"] = "serial"
    position: PositionSpec | None = None
    pattern: AttentionPattern | BlockSparsePattern = FULL
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_dropout(self, "dropout")
        require(
            self.residual == "serial" or (self.placement == "pre" and self.cross is None),
            "Parallel sub-layers need the norm before them and no cross-attention; "
            "use residual='serial' otherwise.",
        )
        require(
            not isinstance(self.position, RelativePositionSpec)
            or (
                isinstance(self.pattern, AttentionPattern)
                and (self.position.bidirectional or self.pattern.right == 0)
            ),
            "A pattern that sees later tokens needs their distances too; "
            "use RelativePositionSpec(bidirectional=True), or a causal pattern.",
        )
        require(
            not isinstance(self.position, RotarySpec)
            or self.position.dim <= self.attention.head_dim,
            "Rotary positions cannot rotate more dimensions than a head has; choose at most "
            f"{self.attention.head_dim}.",
        )
        compresses = self.attention.compression_factor is not None
        require(
            not compresses
            or (self.pattern == CAUSAL and self.position is None and not self.attention.qk_norm),
            "Compressed keys stand at no distance of their own: attention that compresses needs "
            "the causal pattern, and no position or norm of its keys.",
        )


# --- baseline layers without self-attention ----------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RecurrentSpec:
    """An LSTM layer, unidirectional or bidirectional.

    If it is bidirectional, each direction has half of the width. All dropout masks are shared by
    all positions of a text (variational dropout; Merity et al., 2017).
    """

    name: ClassVar[str] = "recurrent"

    width: int  # of the output
    bidirectional: bool = False
    dropout_in: float = 0.0
    weight_dropout: float = 0.0  # on the hidden-to-hidden matrix
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_sizes(self, "width")
        require_dropout(self, "dropout_in", "weight_dropout", "dropout")
        require(
            not self.bidirectional or self.width % 2 == 0,
            f"A layer that reads both ways needs an even width, not {self.width}.",
        )


@dataclass(frozen=True, kw_only=True)
class ConvolutionalSpec:
    """A convolution over `kernel` neighboring positions, centered or causal.

    The input is added to the result, and the sum multiplied by `scale` (Gehring et al., 2017: the
    root of one half).
    """

    name: ClassVar[str] = "convolutional"

    kernel: int
    dilation: int = 1  # d: reads only every d-th neighbor
    causal: bool = False
    activation: Activation = "relu"
    gated: bool = False  # activation(gate) * values; a GLU with a sigmoid
    scale: float = 1.0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_sizes(self, "kernel", "dilation")
        require_dropout(self, "dropout")


@dataclass(frozen=True, kw_only=True)
class MemoryHopSpec:
    """One read of an external memory (Sukhbaatar et al., 2015): state + softmax(state keys) values.

    Two separate embeddings, both described by `memory`, map sentences to keys and values.
    """

    name: ClassVar[str] = "hop"

    memory: TokenEmbeddingSpec
    project: bool = False  # a matrix applied to the state before the addition


LayerSpec = BlockSpec | RecurrentSpec | ConvolutionalSpec | MemoryHopSpec
