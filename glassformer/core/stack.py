"""Room 3, core: a stack. Embedding, then the blocks in their order, then the final norm."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.block import Block
from glassformer.core.context import Context
from glassformer.core.convolution import Convolution
from glassformer.core.embed import Embedding
from glassformer.core.linear import Linear
from glassformer.core.norm import make_norm
from glassformer.core.position import make_position
from glassformer.spec import Position
from glassformer.spec import Stack as StackSpec


class Stack(nn.Module):
    def __init__(self, spec: StackSpec, memory_width: int) -> None:
        super().__init__()
        self.spec = spec
        self.embed = Embedding(spec.width, spec.embed)
        self.blocks = nn.ModuleList(Block(spec.width, memory_width, b) for b in spec.blocks)
        self.positions = nn.ModuleList()
        self.position_of = self._make_positions()  # per block: which of `positions`, if any
        if spec.convolution is not None:
            self.convolution = Convolution(spec.width, spec.convolution)
        if spec.final_norm is not None:
            self.final_norm = make_norm(spec.width, spec.final_norm)
        if spec.project is not None:
            self.project = Linear(spec.width, spec.project, bias=False)

    def _make_positions(self) -> list[int | None]:
        """Layers share a position module, and what it works out once a pass, unless it has
        weights that every layer learns for itself."""
        place: dict[Position, int] = {}
        places: list[int | None] = []
        for block in self.spec.blocks:
            if block.position is None:
                places.append(None)
                continue
            if block.position not in place:
                module = make_position(block.position, block.attention, self.spec.width)
                self.positions.append(module)
                if module.per_layer:
                    places.append(len(self.positions) - 1)
                    continue
                place[block.position] = len(self.positions) - 1
            places.append(place[block.position])
        return places

    def forward(
        self,
        tokens: Tensor,
        ctx: Context,
        segments: Tensor | None = None,
        languages: Tensor | None = None,
    ) -> Tensor:
        x = embedded = self.embed(tokens, ctx, segments, languages)
        if ctx.askers is not None:
            x = torch.cat((x, self.embed.asking(ctx.askers)), 1)
        for depth, index in enumerate(self.spec.order):
            if self.training and self.spec.layer_dropout and self._skips():
                continue
            ctx.depth = depth
            place = self.position_of[index]
            x = self.blocks[index](x, ctx, None if place is None else self.positions[place])
            if depth == 0 and self.spec.convolution is not None:
                x = self.convolution(embedded, x, ctx)
        ctx.depth = None
        if ctx.askers is not None:
            x = x[:, -ctx.askers.shape[1] :]
        return ctx.see("final", self.norm(x))

    def norm(self, x: Tensor) -> Tensor:
        if self.spec.final_norm is not None:
            x = self.final_norm(x)
        if self.spec.project is not None:
            x = self.project(x)
        return F.dropout(x, self.spec.dropout, self.training)

    def _skips(self) -> bool:
        return bool(torch.rand(()) < self.spec.layer_dropout)
