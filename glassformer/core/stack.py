"""A stack: embedding, then the layers in execution order, then the final norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core import context_wrappers
from glassformer.core.audio_image_embedding import SignalEmbedding, make_embedding
from glassformer.core.block import make_block
from glassformer.core.checkpointing import GradientCheckpointing
from glassformer.core.embedding import Embedding, PositionTable
from glassformer.core.linear import Linear
from glassformer.core.norm import make_norm
from glassformer.core.pass_context import PassContext
from glassformer.core.positions.deberta import DisentangledPosition
from glassformer.core.positions.deberta_convolution import DebertaConvolution
from glassformer.core.positions.registry import make_position
from glassformer.errors import UnsupportedError
from glassformer.spec import BlockSpec, LayerSpec, PositionSpec, StackSpec

LAYERS: dict[type, Callable[[int, Any], nn.Module]] = {}
"""Constructors of layers without self-attention, by spec class; registered by `baselines`."""


def make_layer(width: int, memory_width: int, spec: LayerSpec) -> nn.Module:
    if isinstance(spec, BlockSpec):
        return make_block(width, memory_width, spec)
    return LAYERS[type(spec)](width, spec)


class StackWrapper(Protocol):
    """Takes part in every pass through a stack: an adapter with virtual tokens, or edits."""

    def num_virtual_tokens(self, stack: Stack) -> int:
        """Returns how many positions of the stack the virtual tokens occupy."""

    def prepare(
        self, name: str, stack: Stack, tokens: Tensor, inputs: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns the tokens and the other inputs that the stack reads instead of the given."""

    def finish(self, hidden: Tensor, ctx: PassContext) -> Tensor:
        """Returns the hidden states of the text, without those of virtual tokens."""


class Stack(nn.Module):
    """An encoder or a decoder."""

    def __init__(self, spec: StackSpec, memory_width: int) -> None:
        super().__init__()
        self.spec = spec
        self.embed: Embedding | SignalEmbedding = make_embedding(spec.width, spec.embed)
        reads = dict(zip(spec.order, spec.widths, strict=False))
        self.blocks = nn.ModuleList(
            make_layer(reads.get(index, spec.width), memory_width, layer)
            for index, layer in enumerate(spec.blocks)
        )
        self.positions = nn.ModuleList()
        self.position_of = self._make_positions()  # per block: index into `positions`, or None
        self.checkpointing: GradientCheckpointing | None = None
        self.wrapper: StackWrapper | None = None  # in every context; see `active_wrapper`
        table = spec.embed.position
        if table is not None and table.every_layer:  # the embedding adds the first layer's
            self.tables = nn.ModuleList(PositionTable(table, spec.width) for _ in spec.order[1:])
        if spec.convolution is not None:
            self.convolution = DebertaConvolution(spec.width, spec.convolution)
        if spec.final_norm is not None:
            self.final_norm = make_norm(spec.widths[-1], spec.final_norm)
        if spec.projection_width is not None:
            self.project = Linear(spec.widths[-1], spec.projection_width, bias=False)

    @property
    def active_wrapper(self) -> StackWrapper | None:
        """What wraps the stack in this context: its adapter, with the context's edits around it."""
        if not context_wrappers.in_use:
            return self.wrapper
        wrapper: StackWrapper | None = context_wrappers.wrapped(self, self.wrapper)
        return wrapper

    def _make_positions(self) -> list[int | None]:
        """Creates the position modules, and returns the index of each block's module.

        Blocks share a module, and what it computes once per pass, unless it has per-layer weights.
        """
        place: dict[PositionSpec, int] = {}
        places: list[int | None] = []
        for block in self.spec.blocks:
            if not isinstance(block, BlockSpec) or block.position is None:
                places.append(None)
                continue
            known = place.get(block.position)
            if known is None or self.positions[known].per_layer:
                module = make_position(block.position, block.attention, self.spec.width)
                self.positions.append(module)
                place[block.position] = len(self.positions) - 1
            places.append(place[block.position])
        return places

    def forward(
        self,
        tokens: Tensor,
        ctx: PassContext,
        segments: Tensor | None = None,
        languages: Tensor | None = None,
    ) -> Tensor:
        packed = ctx.document_ids is not None or ctx.prefix_length is not None
        if packed and not self.spec.attention_blocks:
            raise UnsupportedError(
                "Packed documents and prefixes need a model with attention; use one row per text."
            )
        x = embedded = self.embed(tokens, ctx, segments, languages)
        if ctx.query_stream is not None:
            x = torch.cat((x, self.embed.query_stream(ctx.query_stream)), 1)
        for depth, index in enumerate(self.spec.order):
            if ctx.hidden_states is not None:
                ctx.hidden_states.append(x)
            if self.training and self.spec.layer_dropout and self._skips():
                continue
            ctx.depth = depth
            place = self.position_of[index]
            if depth > 0 and hasattr(self, "tables"):
                x = x + self.tables[depth - 1](ctx.q_pos)
            layer = self.blocks[index]
            position = () if place is None else (self.positions[place],)
            if self.training and self.checkpointing is not None:
                x = self.checkpointing(layer, x, ctx, *position)
            else:
                x = layer(x, ctx, *position)
            if depth == 0 and self.spec.convolution is not None:
                x = self.convolution(embedded, x, ctx)
        ctx.depth = None
        if ctx.hidden_states is not None:
            ctx.hidden_states.append(x)
        if ctx.query_stream is not None:
            x = x[:, -ctx.query_stream.shape[1] :]
        return ctx.hook_point("final", self.norm(x))

    def pack(self) -> None:
        """Precomputes each layer's projections of the position table, the same for all texts."""
        for block, place in zip(self.blocks, self.position_of, strict=True):
            position = None if place is None else self.positions[place]
            if isinstance(position, DisentangledPosition):
                position.pack(block.attention)

    def norm(self, x: Tensor) -> Tensor:
        if self.spec.final_norm is not None:
            x = self.final_norm(x)
        if self.spec.projection_width is not None:
            x = self.project(x)
        return F.dropout(x, self.spec.dropout, self.training)

    def _skips(self) -> bool:
        return bool(torch.rand(()) < self.spec.layer_dropout)
