"""An embedding and the layers above it."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from glassformer.spec.common import Activation, NormSpec, require
from glassformer.spec.embeddings import AudioFramesSpec, PatchEmbeddingSpec, TokenEmbeddingSpec
from glassformer.spec.layers import BlockSpec, LayerSpec, RecurrentSpec
from glassformer.spec.positions import RelativePositionSpec, RotarySpec


@dataclass(frozen=True, kw_only=True)
class MemorySpec:
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
class ConvolutionSpec:
    """Looks at neighbors: norm(first layer's output + activation(convolution of embeddings))."""

    kernel: int
    groups: int
    activation: Activation
    norm: NormSpec


@dataclass(frozen=True, kw_only=True)
class StackSpec:
    """Embedding and layers. `order` is the order of execution; a layer may stand there often."""

    width: int  # of the embedding; layers may hand on another
    embed: TokenEmbeddingSpec | AudioFramesSpec | PatchEmbeddingSpec
    blocks: tuple[LayerSpec, ...]
    order: tuple[int, ...] = ()
    final_norm: NormSpec | None = None
    project: int | None = None  # the width it leaves with, where that is not `width` (OPT)
    dropout: float = 0.0  # after the final norm
    layer_dropout: float = 0.0
    convolution: ConvolutionSpec | None = None  # beside the first layer
    memory: MemorySpec | None = None

    def __post_init__(self) -> None:
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
            not (self.blanks or self.embed.asks)
            or all(
                isinstance(b, BlockSpec) and isinstance(b.position, RelativePositionSpec)
                for b in self.blocks
            ),
            "Only relative positions know how far away a blank memory is, or a slot that asks; "
            "use Relative.",
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """Of what each layer of the order reads, and at the end of what the last hands on."""
        widths = [self.width]
        for index in self.order:
            layer = self.blocks[index]
            widths.append(layer.width if isinstance(layer, RecurrentSpec) else widths[-1])
        return tuple(widths)

    @property
    def context_length(self) -> int | None:
        """The number of positions that the stack was trained for: the length of its table of
        positions, or of its rotary positions (`max_position_embeddings`). A window of attention is
        no limit. None where no position is the last one: relative positions (T5, Transformer-XL,
        XLNet, DeBERTa without a table), ALiBi, recurrent layers, and patches of an image."""
        if self.embed.position is not None:
            return self.embed.position.length
        positions = [block.position for block in self.attention_blocks]
        rotary = [one.length for one in positions if isinstance(one, RotarySpec)]
        return max((length for length in rotary if length is not None), default=None)

    @property
    def words(self) -> TokenEmbeddingSpec:
        """The embedding of a stack that reads text."""
        assert isinstance(self.embed, TokenEmbeddingSpec)
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
        return any(isinstance(p, RelativePositionSpec) and p.segments for p in positions)

    @property
    def out_width(self) -> int:
        return self.widths[-1] if self.project is None else self.project

    @property
    def attention_blocks(self) -> tuple[BlockSpec, ...]:
        """The layers that are blocks of attention: all or, in a baseline, none."""
        return tuple(layer for layer in self.blocks if isinstance(layer, BlockSpec))
