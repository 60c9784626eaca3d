"""Specs of stacks: an embedding and a sequence of layers."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from glassformer.spec.common import (
    Activation,
    NormSpec,
    require,
    require_dropout,
    require_sizes,
)
from glassformer.spec.embeddings import AudioFramesSpec, PatchEmbeddingSpec, TokenEmbeddingSpec
from glassformer.spec.layers import BlockSpec, LayerSpec, RecurrentSpec
from glassformer.spec.positions import RelativePositionSpec, RotarySpec


@dataclass(frozen=True, kw_only=True)
class MemorySpec:
    """The recurrent memory of earlier segments: the newest `length` slots, or all of them.

    The first `reuse_length` tokens of each segment (None: all) are kept. With `zero_initialized`
    the memory is full from the start: `length` slots of zeros, which are visible to attention,
    precede a text (Transformer-XL).
    """

    length: int | None = None
    reuse_length: int | None = None
    zero_initialized: bool = False

    @property
    def limit(self) -> int:
        return sys.maxsize if self.length is None else self.length


@dataclass(frozen=True, kw_only=True)
class ConvolutionSpec:
    """A local convolution: norm(first layer's output + activation(convolution of embeddings))."""

    kernel: int
    groups: int
    activation: Activation
    norm: NormSpec

    def __post_init__(self) -> None:
        require_sizes(self, "kernel", "groups")
        require(
            self.kernel % 2 == 1,
            f"A convolution of {self.kernel} tokens has no middle; choose an odd number.",
        )


@dataclass(frozen=True, kw_only=True)
class StackSpec:
    """An embedding and a sequence of layers.

    `order` is the execution order, as indices into `blocks`; a layer may occur several times.
    """

    width: int  # of the embedding; layers may have another output width
    embed: TokenEmbeddingSpec | AudioFramesSpec | PatchEmbeddingSpec
    blocks: tuple[LayerSpec, ...]
    order: tuple[int, ...] = ()
    final_norm: NormSpec | None = None
    projection_width: int | None = None  # output width, if it is not `width` (OPT)
    dropout: float = 0.0  # after the final norm
    layer_dropout: float = 0.0
    convolution: ConvolutionSpec | None = None  # parallel to the first layer
    memory: MemorySpec | None = None

    def __post_init__(self) -> None:
        require_sizes(self, "width", "projection_width")
        require_dropout(self, "dropout", "layer_dropout")
        require(len(self.blocks) > 0, "A stack needs at least one layer.")
        groups = 1 if self.convolution is None else self.convolution.groups
        require(
            self.width % groups == 0,
            f"{self.width} numbers cannot be split into {groups} groups of a convolution; choose a "
            "number that divides it.",
        )
        require(
            self.width % 2 == 0 or not any(map(_has_relative_position, self.blocks)),
            f"Relative positions are sines and cosines, half of a width each, and {self.width} is "
            "odd; choose an even width.",
        )
        if not self.order:
            object.__setattr__(self, "order", tuple(range(len(self.blocks))))
        require(
            all(0 <= i < len(self.blocks) for i in self.order),
            f"The order of layers {self.order} names one beyond the {len(self.blocks)} there are.",
        )
        require(
            len(set(zip(self.order, self.widths, strict=False))) == len(set(self.order)),
            "A layer that stands in the order twice would have to read vectors of two widths.",
        )
        require(
            not (self.empty_memory_slots or self.embed.has_query_stream)
            or all(map(_has_relative_position, self.blocks)),
            "Only relative positions know the distance of an empty memory or of a query stream; "
            "use RelativePositionSpec.",
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """The input width of each layer in execution order, then the output width of the last."""
        widths = [self.width]
        for index in self.order:
            layer = self.blocks[index]
            widths.append(layer.width if isinstance(layer, RecurrentSpec) else widths[-1])
        return tuple(widths)

    @property
    def context_length(self) -> int | None:
        """The number of positions that the stack was trained for, or None if there is no limit.

        This is the length of its position table or of its rotary positions
        (`max_position_embeddings`). An attention window is not a limit. Relative positions (T5,
        Transformer-XL, XLNet, DeBERTa without a table), ALiBi, recurrent layers and image patches
        have no limit.
        """
        if self.embed.position is not None:
            return self.embed.position.length
        positions = [block.position for block in self.attention_blocks]
        rotary = [one.length for one in positions if isinstance(one, RotarySpec)]
        return max((length for length in rotary if length is not None), default=None)

    @property
    def token_embedding(self) -> TokenEmbeddingSpec:
        """The embedding of a stack that reads text."""
        assert isinstance(self.embed, TokenEmbeddingSpec)
        return self.embed

    @property
    def empty_memory_slots(self) -> int:
        """The number of empty memory slots before a text."""
        memory = self.memory
        return memory.length or 0 if memory is not None and memory.zero_initialized else 0

    @property
    def scores_segments(self) -> bool:
        """Whether attention, not the embedding, distinguishes segments."""
        positions = (block.position for block in self.attention_blocks)
        return any(isinstance(p, RelativePositionSpec) and p.segments for p in positions)

    @property
    def out_width(self) -> int:
        return self.widths[-1] if self.projection_width is None else self.projection_width

    @property
    def attention_blocks(self) -> tuple[BlockSpec, ...]:
        """The layers with self-attention: all, or none in a baseline."""
        return tuple(layer for layer in self.blocks if isinstance(layer, BlockSpec))


def _has_relative_position(layer: LayerSpec) -> bool:
    return isinstance(layer, BlockSpec) and isinstance(layer.position, RelativePositionSpec)
