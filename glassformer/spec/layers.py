"""The parts of a block, and layers that are none, to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from glassformer.spec.common import Activation, NormSpec, require
from glassformer.spec.embeddings import TokenEmbeddingSpec
from glassformer.spec.positions import PositionSpec, RelativePositionSpec


@dataclass(frozen=True, kw_only=True)
class AttentionSpec:
    heads: int
    head_dim: int
    kv_heads: int | None = None  # fewer than `heads`: grouped; one: shared by all
    scale: float | None = None  # None: 1 / sqrt(head_dim)
    score: Literal["dot", "additive"] = "dot"
    softcap: float | None = None  # scores s become softcap * tanh(s / softcap) (Gemma 2)
    qk_norm: NormSpec | None = None  # on each head's queries and keys, before positions turn them
    bias: bool = True  # on queries, keys and values
    key_bias: bool = True  # ... though perhaps not on keys
    out_bias: bool = True
    own_global: bool = False  # global tokens are projected by matrices of their own (Longformer)
    compress: int | None = None  # so many neighboring keys, and values, become one by a
    # convolution that moves on by as many (Liu et al., 2018)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require(
            self.heads > 0 and self.heads % self.key_heads == 0,
            f"{self.heads} attention heads cannot share {self.key_heads} key heads evenly; "
            "choose a number of key heads that divides them.",
        )

    @property
    def key_heads(self) -> int:
        return self.heads if self.kv_heads is None else self.kv_heads


@dataclass(frozen=True, kw_only=True)
class AttentionPattern:
    """Which keys a query may see, by distance in slots: from `left` before it to `right` after.

    None is without limit: `AttentionPattern()` sees all, and with right=0 it is causal. With a
    dilation d only every d-th slot, counted from the query, is seen. With `block` a text is cut
    into blocks of so many tokens, and a query sees its own.
    """

    left: int | None = None
    right: int | None = None
    dilation: int = 1
    block: int | None = None


@dataclass(frozen=True, kw_only=True)
class BlockSparsePattern:
    """BigBird's: a text is cut into blocks of `size` tokens, counted from its own first one.

    A block sees itself and its neighbors, the first and the last block, and `random` more; the
    first and the last see all. Evaluated, as published models are, the random ones are all the
    first block, which so counts 1 + `random` times. Short texts are seen whole.
    """

    size: int
    random: int = 3

    def __post_init__(self) -> None:
        require(
            self.size > 0 and self.random >= 0,
            f"Blocks of {self.size} tokens, {self.random} of them at random, cannot be made; "
            "choose a size of one or more, and no negative number.",
        )

    @property
    def whole(self) -> int:
        """Up to so many tokens a text is seen whole."""
        return (5 + 2 * self.random) * self.size


CAUSAL = AttentionPattern(right=0)
FULL = AttentionPattern()


@dataclass(frozen=True, kw_only=True)
class FeedForwardSpec:
    width: int
    activation: Activation = "gelu"
    gated: bool = False  # activation(gate) * up, as in GLU, GeGLU, SwiGLU
    bias: bool = True
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class BlockSpec:
    """One layer. `cross` is attention to another stack's output, between the other two parts."""

    attention: AttentionSpec
    ffn: FeedForwardSpec
    norm: NormSpec
    cross: AttentionSpec | None = None
    placement: Literal["pre", "post", "sandwich"] = "pre"
    attention_normed: bool = True  # False: attention reads the stream as it is (ModernBERT's first)
    residual: Literal["serial", "parallel", "parallel_shared_norm"] = "serial"
    position: PositionSpec | None = None
    pattern: AttentionPattern | BlockSparsePattern = FULL
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require(
            self.residual == "serial" or (self.placement == "pre" and self.cross is None),
            "Parallel sub-layers need the norm before them and no cross-attention; "
            "use residual='serial' otherwise.",
        )
        require(
            not isinstance(self.position, RelativePositionSpec)
            or (
                isinstance(self.pattern, AttentionPattern)
                and (self.position.both_ways or self.pattern.right == 0)
            ),
            "A pattern that sees later tokens needs their distances too; "
            "use Relative(both_ways=True), or a causal pattern.",
        )
        compresses = self.attention.compress is not None
        require(
            not compresses
            or (self.pattern == CAUSAL and self.position is None and not self.attention.qk_norm),
            "Compressed keys stand at no distance of their own: attention that compresses needs "
            "the causal pattern, and no position or norm of its keys.",
        )


# --- layers that are no blocks of attention, to compare with ----------------------------------


@dataclass(frozen=True, kw_only=True)
class RecurrentSpec:
    """An LSTM: a state that walks along the text, from left to right or both ways.

    Going both ways, each direction has half of the width. All its dropouts are held still while
    it walks (Merity et al., 2017): a text keeps one mask for all its positions.
    """

    name: ClassVar[str] = "recurrent"

    width: int  # what it hands on
    bidirectional: bool = False
    dropout_in: float = 0.0
    weight_dropout: float = 0.0  # on the matrix from state to state
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require(
            not self.bidirectional or self.width % 2 == 0,
            f"A layer that reads both ways needs an even width, not {self.width}.",
        )


@dataclass(frozen=True, kw_only=True)
class ConvolutionalSpec:
    """Every position reads `kernel` neighbors: half of them on each side, or causal.

    The result is added to what was read, and the sum multiplied by `scale` (Gehring et al., 2017:
    the root of one half).
    """

    name: ClassVar[str] = "convolutional"

    kernel: int
    dilation: int = 1  # d: only every d-th neighbor is read
    causal: bool = False
    activation: Activation = "relu"
    gated: bool = False  # activation(gate) * values; a GLU with a sigmoid
    scale: float = 1.0
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class MemoryHopSpec:
    """Reads an external memory once (Sukhbaatar et al., 2015): state + softmax(state keys) values.

    Sentences become keys and values by two embeddings of their own, both made as `memory` says.
    """

    name: ClassVar[str] = "hop"

    memory: TokenEmbeddingSpec
    project: bool = False  # a matrix on the state before the values are added


LayerSpec = BlockSpec | RecurrentSpec | ConvolutionalSpec | MemoryHopSpec
