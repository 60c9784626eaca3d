"""Decoder pass for one token per row on a GPU, with five kernel launches per block.

It computes the same as the model, for the architectures it supports; `static.decode` serves all
others. Weights are not copied. The residual stream is held in float32.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import triton
from torch import Tensor, nn

from glassformer.core import Transformer
from glassformer.core.block import Block
from glassformer.core.embedding import Embedding
from glassformer.core.heads import Head
from glassformer.core.linear import Linear
from glassformer.core.norm import LayerNorm, RMSNorm
from glassformer.core.positions.rotary import RotaryPosition
from glassformer.generate import fused_kernels
from glassformer.generate.fused_attention import attend
from glassformer.generate.slots import StaticCache
from glassformer.spec import AttentionPattern, BlockSpec, RotarySpec, TokenEmbeddingSpec

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "linear")
QUERIES = 16  # minimum size of a matrix product; a group of heads fills part of it
FAR = 2**30
PROGRAMS = 512  # maximum number of attention programs, a few per multiprocessor
SLOTS = 40  # minimum number of slots per program
WIDE = 4096  # a product over a multiple of it is worth splitting
PART = 2048  # tokens of the vocabulary compared at once


def knows(net: Transformer) -> bool:
    """Returns whether the kernels support this model."""
    stack, head = net.spec.decoder, net.spec.heads[0] if net.spec.heads else None
    if stack is None or net.decoder is None or head is None or net.encoder is not None:
        return False
    embed, table = stack.embed, stack.embed.position
    plain_embed = (
        isinstance(embed, TokenEmbeddingSpec)
        and embed.norm is None
        and embed.embedding_size is None
        and embed.adaptive is None
        and not embed.segments
        and embed.bag is None
        and (table is None or not (table.every_layer or table.padding_idx is not None))
    )
    plain_head = (
        head.pooling == "each"
        and head.num_outputs is not None
        and (head.norm, head.transform, head.adaptive, head.softcap) == (None,) * 4
        and (head.scale, head.activation, head.num_weighted_layers) == (1.0, "linear", 0)
    )
    plain_stack = (
        stack.projection_width is None and stack.convolution is None and stack.memory is None
    )
    known = plain_embed and plain_head and plain_stack and all(map(_knows_block, stack.blocks))
    layers = [module for module in net.modules() if isinstance(module, Linear)]
    plain = all("weight" in layer._parameters for layer in layers)  # not quantized
    adapted = (
        any(layer._forward_hooks for layer in layers) or net.decoder.active_wrapper is not None
    )
    return known and plain and not adapted


def _knows_block(block: Any) -> bool:
    if not isinstance(block, BlockSpec) or not isinstance(block.pattern, AttentionPattern):
        return False
    attention, pattern, position = block.attention, block.pattern, block.position
    turned = isinstance(position, RotarySpec) and (
        position.pairing == "halves" and position.dim == attention.head_dim
    )
    return (
        (block.placement, block.residual, block.cross) == ("pre", "serial", None)
        and block.attention_normed
        and block.norm.kind in ("layer", "rms")
        and attention.score == "dot"
        and (attention.softcap, attention.qk_norm, attention.compression_factor) == (None,) * 3
        and attention.head_dim in (32, 64, 128, 256)
        and (position is None or turned)
        and (pattern.right, pattern.block, pattern.dilation) == (0, None, 1)
        and block.ffn.activation in ACTIVATIONS
    )


class FusedStep:
    """Decoding step over the rows of `slots`, which it advances by one."""

    def __init__(self, net: Transformer, slots: StaticCache) -> None:
        assert net.decoder is not None and isinstance(net.decoder.embed, Embedding)
        self.net, self.stack, self.embed = net, net.decoder, net.decoder.embed
        self.slots, self.rows = slots, len(slots.position)
        self.words: Tensor = self.embed.token.weight  # type: ignore[assignment]
        self.dtype, self.device = self.words.dtype, self.words.device
        self.early = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)
        self.launch = {"launch_pdl": True} if self.early else {}
        width = self.stack.spec.width
        self.stream = torch.empty(self.rows, width, device=self.device)
        self.angles = {p: self.table(p) for p in self.stack.positions}
        self.none = torch.zeros(1, device=self.device)  # placeholder for unused kernel arguments
        specs = [block.attention for block in self.stack.spec.attention_blocks]
        heads = max(spec.heads for spec in specs)
        dim = max(spec.head_dim for spec in specs)
        programs = self.rows * min(spec.key_heads for spec in specs)
        self.splits = max(1, min(32, slots.capacity // SLOTS, PROGRAMS // programs))
        spots = self.rows * heads * self.splits
        self.parts = torch.empty(max(spots * dim, 2 * self.rows * width), device=self.device)
        self.tops, self.totals = torch.empty(2, spots, device=self.device)
        counters = max(self.rows * heads, width)
        self.arrived = torch.zeros(counters, dtype=torch.int32, device=self.device)
        head = net.heads[net.spec.heads[0].name]
        assert isinstance(head, Head) and isinstance(head.out, Linear)
        self.head: Linear = head.out

    def table(self, position: nn.Module) -> tuple[Tensor, Tensor]:
        """Returns cosines and sines of all positions, [position, dim / 2]."""
        assert isinstance(position, RotaryPosition)
        every = torch.arange(self.slots.capacity, device=self.device)[None]
        cos, sin = position.angles(every, torch.float32)
        half = position.spec.dim // 2
        return cos[0, 0, :, :half].contiguous(), sin[0, 0, :, :half].contiguous()

    def __call__(self, tokens: Tensor) -> Tensor:
        """Maps tokens of [row, 1] to the next-token logits, [row, token]."""
        stack, slots = self.stack, self.slots
        spec, width = self.embed.spec, stack.spec.width
        table = self.none if spec.position is None else self.embed.position.weight
        fused_kernels.embed[(self.rows,)](
            tokens, self.words, table, slots.position, self.stream, spec.scale,
            0 if spec.position is None else spec.position.offset, width,
            spec.position is not None, triton.next_power_of_2(width),
        )  # fmt: skip
        change: Tensor | None = None
        for depth, index in enumerate(stack.spec.order):
            block = stack.blocks[index]
            assert isinstance(block, Block)
            place = stack.position_of[index]
            position = None if place is None else stack.positions[place]
            z = self.attended(block, depth, position, change)
            change = self.fed(block, self.added(z, block.attention.out))
        norm = stack.final_norm if stack.spec.final_norm is not None else None
        logits = self.projected(norm, self.head, change, dtype=torch.float32)
        slots.next.add_(1)
        slots.position.add_(1)
        return logits

    def attended(
        self, block: Block, depth: int, position: nn.Module | None, change: Tensor | None
    ) -> Tensor:
        attention, slots = block.attention, self.slots
        spec = attention.spec
        qkv = self.projected(block.attention_norm, attention.qkv, change)
        keys, values = slots.pair(depth)
        z = qkv.new_empty(self.rows, spec.heads * spec.head_dim)
        share = spec.heads // spec.key_heads
        cos, sin = (self.none, self.none) if position is None else self.angles[position]
        assert isinstance(block.spec.pattern, AttentionPattern)
        left = block.spec.pattern.left
        at_once, warps = (32, 1) if self.rows > 1 or share == 1 else (64, 4)
        attend[(self.rows, spec.key_heads, self.splits)](
            qkv, keys, values, cos, sin, slots.next, slots.position, self.parts, self.tops,
            self.totals, self.arrived, z, attention.attend.scale, FAR if left is None else left,
            slots.capacity, spec.heads, spec.key_heads, spec.head_dim, position is not None,
            1 if share == 1 else max(QUERIES, triton.next_power_of_2(share)), self.early,
            self.rows == 1 or share == 1, at_once=at_once, splits=self.splits, num_warps=warps,
            **self.launch,
        )  # fmt: skip
        return z

    def fed(self, block: Block, change: Tensor | None) -> Tensor | None:
        ffn = block.ffn
        kind = ffn.spec.activation
        hidden = self.projected(block.ffn_norm, ffn.up, change, kind, ffn.spec.gated)
        return self.added(hidden, ffn.down)

    def projected(
        self,
        norm: nn.Module | None,
        linear: Linear,
        change: Tensor | None,
        activation: str = "linear",
        gated: bool = False,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Computes activation(linear(norm(stream + change))), and adds `change` to the stream."""
        height, width = linear.weight.shape
        height = height // 2 if gated else height
        if self.rows == 1:
            out = torch.empty(1, height, dtype=dtype or self.dtype, device=self.device)
            self.row(self.stream, norm, linear, out, height, activation, gated)
            return out
        columns = triton.next_power_of_2(width)
        normed = torch.empty(self.rows, width, dtype=self.dtype, device=self.device)
        fused_kernels.add_and_norm[(self.rows,)](
            self.stream, self.none if change is None else change, *self.weights(norm), normed,
            width, kind_of(norm), change is not None, self.early, columns, num_warps=4,
            **self.launch,
        )  # fmt: skip
        padded_weight = linear.with_spare_rows() if linear is self.head else None
        if padded_weight is not None and linear.full_bias is None:
            return F.linear(normed, padded_weight)[:, :height]
        if gated and self.suits(width, 128):
            out = normed.new_empty(self.rows, height)
            self.some_rows(normed, linear, out, activation, gated)
            return out
        x = F.linear(normed, linear.weight, linear.full_bias)
        if activation == "linear" and not gated:
            return x
        out = x.new_empty(self.rows, height)
        fused_kernels.activate[(self.rows, triton.cdiv(height, 1024))](
            x, out, height, gated, activation, self.early, 1024, num_warps=4, **self.launch
        )
        return out

    def added(self, x: Tensor, linear: Linear) -> Tensor | None:
        """Adds linear(x) to the stream, or returns it if it could not be added at once."""
        if self.rows == 1:
            self.row(x, None, linear, self.stream, linear.weight.shape[0], adds=True)
            return None
        if self.suits(x.shape[1], WIDE):
            self.some_rows(x, linear, self.stream)
            return None
        return F.linear(x, linear.weight, linear.full_bias)

    def suits(self, width: int, multiple: int) -> bool:
        """Returns whether `some_rows` is faster than a cuBLAS product plus another launch."""
        return self.rows <= 64 and self.dtype != torch.float32 and width % multiple == 0

    def some_rows(
        self,
        x: Tensor,
        linear: Linear,
        out: Tensor,
        activation: str = "linear",
        gated: bool = False,
    ) -> None:
        height, width = linear.weight.shape
        height = height // 2 if gated else height
        columns, at_once, splits = (64, 128, 1) if gated else (32, 256, 2)
        bias = linear.full_bias
        fused_kernels.project_rows[(triton.cdiv(height, columns), splits)](
            x, linear.weight, self.none if bias is None else bias, out, self.parts,
            self.arrived, self.rows, height, width, activation, bias is not None, gated,
            out is self.stream, self.early, max(16, triton.next_power_of_2(self.rows)),
            columns, at_once, splits, num_warps=4, num_stages=4, **self.launch,
        )  # fmt: skip

    def row(
        self,
        x: Tensor,
        norm: nn.Module | None,
        linear: Linear,
        out: Tensor,
        height: int,
        activation: str = "linear",
        gated: bool = False,
        adds: bool = False,
    ) -> None:
        width = linear.weight.shape[1]
        bias = linear.full_bias
        rows, warps = fused_kernels.row_shape(width, gated)
        fused_kernels.project_row[(triton.cdiv(height, rows),)](
            x, *self.weights(norm), linear.weight, self.none if bias is None else bias, out,
            height, width, kind_of(norm), activation, bias is not None, gated, adds, self.early,
            rows, triton.next_power_of_2(width), num_warps=warps, **self.launch,
        )  # fmt: skip

    def weights(self, norm: nn.Module | None) -> tuple[Tensor, Tensor, float]:
        if norm is None:
            return self.none, self.none, 0.0
        assert isinstance(norm, LayerNorm | RMSNorm)
        bias = getattr(norm, "bias", None)
        return norm.weight, self.none if bias is None else bias, norm.eps


def kind_of(norm: nn.Module | None) -> str:
    if norm is None:
        return "none"
    if isinstance(norm, RMSNorm):
        return "offset" if norm.unit_offset else "rms"
    return "shiftless" if getattr(norm, "bias", None) is None else "layer"


class BestToken:
    """Most probable token of every row, in two launches."""

    def __init__(self, rows: int, height: int, device: torch.device) -> None:
        self.rows, self.height, self.parts = rows, height, triton.cdiv(height, PART)
        self.best, self.total = torch.empty(2, rows, self.parts, device=device)
        self.where = torch.empty(rows, self.parts, dtype=torch.int32, device=device)

    def __call__(
        self, logits: Tensor, tokens: Tensor, made: Tensor, logprobs: Tensor, count: Tensor
    ) -> None:
        fused_kernels.best_of_part[(self.rows, self.parts)](
            logits, logits.stride(0), self.best, self.where, self.total, self.height, self.parts,
            PART, num_warps=4,
        )  # fmt: skip
        fused_kernels.choose_best[(self.rows,)](
            self.best, self.where, self.total, tokens, made, logprobs, count, made.shape[1],
            self.height, self.parts, triton.next_power_of_2(self.parts), num_warps=1,
        )  # fmt: skip
