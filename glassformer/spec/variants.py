"""Variants of an architecture: the choices that papers compare, as options of every preset."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args, get_type_hints

from glassformer.errors import ConfigError
from glassformer.spec.common import NormSpec, require, require_sizes
from glassformer.spec.embeddings import TokenEmbeddingSpec
from glassformer.spec.layers import AttentionPattern, BlockSparsePattern, BlockSpec, LayerSpec
from glassformer.spec.model import ModelSpec
from glassformer.spec.positions import (
    AlibiSpec,
    PositionSpec,
    PositionTableSpec,
    RotarySpec,
    T5BiasSpec,
)
from glassformer.spec.stacks import StackSpec

DEFAULT_LENGTH = 512
"""Number of positions of a new table, if the preset has no limit."""
LAYOUTS = {
    "learned": "learned",
    "sinusoidal": "interleaved",
    "sinusoidal-halves": "halves",
}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Changes to the attention layers of a model; None keeps what the preset has.

    Attributes:
        attention: The score: "dot" (scaled dot product) or "additive" (Bahdanau et al., 2015).
        norm: The norm of the layers.
        norm_placement: The norm before each part ("pre"), after each sum ("post"), or before and
            after each part ("sandwich").
        positions: How the model receives positions. "sinusoidal" alternates sines and cosines
            (Vaswani et al., 2017), "sinusoidal-halves" puts all sines first.
        window: A token attends to this many tokens: to itself and those before it, or, if attention
            has no direction, to the nearest on both sides.
        dilation: Only every so many tokens are visible.
        block_sparse: BigBird's block size, for attention without a direction.
    """

    attention: Literal["dot", "additive"] | None = None
    norm: Literal["layer", "rms", "batch"] | None = None
    norm_placement: Literal["pre", "post", "sandwich"] | None = None
    positions: (
        Literal["learned", "sinusoidal", "sinusoidal-halves", "rotary", "alibi", "t5", "none"]
        | None
    ) = None
    window: int | None = None
    dilation: int | None = None
    block_sparse: int | None = None

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):
            value = getattr(self, field.name)
            known = [v for part in get_args(hints[field.name]) for v in get_args(part)]
            if value is None or (known and value in known):
                continue
            if known:
                raise ConfigError(f"{field.name} must be one of {', '.join(known)}, not {value!r}.")
            if type(value) is not int:
                raise ConfigError(f"{field.name} must be a whole number, not {value!r}.")
        require_sizes(self, "window", "dilation", "block_sparse")
        require(
            self.block_sparse is None or (self.window, self.dilation) == (None, None),
            "block_sparse replaces the pattern of attention; leave out window and dilation.",
        )

    def apply(self, model: ModelSpec) -> ModelSpec:
        """Returns a model's spec with these changes.

        Args:
            model: The spec of a model with attention layers.
        """
        stacks = (model.encoder, model.decoder)
        if not any(stack is not None and stack.attention_blocks for stack in stacks):
            raise ConfigError(f"This model has no attention layers; leave out {self.names[0]}.")
        encoder, decoder = (None if stack is None else self._stack(stack) for stack in stacks)
        return replace(model, encoder=encoder, decoder=decoder)

    @property
    def names(self) -> list[str]:
        """The names of the changes."""
        return [field.name for field in fields(self) if getattr(self, field.name) is not None]

    def _stack(self, stack: StackSpec) -> StackSpec:
        length = stack.context_length or DEFAULT_LENGTH
        blocks: tuple[LayerSpec, ...] = tuple(
            self._block(layer, length) if isinstance(layer, BlockSpec) else layer
            for layer in stack.blocks
        )
        embed, final_norm = stack.embed, stack.final_norm
        if self.positions is not None and isinstance(embed, TokenEmbeddingSpec):
            layout: Any = LAYOUTS.get(self.positions)
            table = None if layout is None else PositionTableSpec(length=length, layout=layout)
            embed = replace(embed, position=table)
        if self.norm_placement == "post":
            final_norm = None
        elif self.norm_placement is not None and final_norm is None:
            final_norm = stack.attention_blocks[0].norm
        if final_norm is not None:
            final_norm = self._norm(final_norm)
        return replace(stack, blocks=blocks, embed=embed, final_norm=final_norm)

    def _block(self, block: BlockSpec, length: int) -> BlockSpec:
        attention, cross = block.attention, block.cross
        if self.attention is not None:
            attention = replace(attention, score=self.attention)
            cross = None if cross is None else replace(cross, score=self.attention)
        position = block.position if self.positions is None else self._position(block, length)
        return replace(
            block,
            attention=attention,
            cross=cross,
            norm=self._norm(block.norm),
            placement=self.norm_placement or block.placement,
            position=position,
            pattern=self._pattern(block),
        )

    def _norm(self, norm: NormSpec) -> NormSpec:
        return norm if self.norm is None else NormSpec(kind=self.norm, eps=norm.eps)

    def _position(self, block: BlockSpec, length: int) -> PositionSpec | None:
        if self.positions == "rotary":
            return RotarySpec(dim=block.attention.head_dim, length=length)
        if self.positions == "alibi":
            return AlibiSpec()
        if self.positions == "t5":
            causal = isinstance(block.pattern, AttentionPattern) and block.pattern.right == 0
            return T5BiasSpec(bidirectional=not causal)
        return None

    def _pattern(self, block: BlockSpec) -> AttentionPattern | BlockSparsePattern:
        pattern = block.pattern
        causal = isinstance(pattern, AttentionPattern) and pattern.right == 0
        if self.block_sparse is not None:
            require(not causal, "block_sparse is for models that attend to both sides.")
            return BlockSparsePattern(block_size=self.block_sparse)
        if self.window is None and self.dilation is None:
            return pattern
        if isinstance(pattern, BlockSparsePattern):
            pattern = AttentionPattern()
        dilation = self.dilation or pattern.dilation
        if self.window is None:
            return replace(pattern, dilation=dilation)
        reach = (self.window - 1 if causal else self.window // 2) * dilation
        return replace(pattern, left=reach, right=0 if causal else reach, dilation=dilation)


NAMES = tuple(field.name for field in fields(Variant))


def split_variant(
    settings: Mapping[str, Any], own: Collection[str]
) -> tuple[Variant, dict[str, Any]]:
    """Separates the options of a variant from other settings of a model.

    Args:
        settings: The settings by name.
        own: The keys of the family's config.json, which are not options of a variant.
    """
    chosen = {n: value for n, value in settings.items() if n in NAMES and n not in own}
    return Variant(**chosen), {n: value for n, value in settings.items() if n not in chosen}
