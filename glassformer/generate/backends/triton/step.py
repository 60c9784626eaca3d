"""Executes a step program with Triton kernels, and cuBLAS where there are several rows.

Weights are not copied. The residual stream is held in float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import triton
from torch import Tensor, nn

from glassformer.core import Transformer
from glassformer.core.embedding import PositionTable
from glassformer.core.linear import Linear
from glassformer.core.norm import LayerNorm, RMSNorm
from glassformer.core.positions.alibi import AlibiBias, alibi_slopes
from glassformer.core.positions.rotary import RotaryPosition
from glassformer.core.positions.t5_bias import T5Bias
from glassformer.generate.backends.support import layer_of, position_of
from glassformer.generate.backends.triton import kernels
from glassformer.generate.backends.triton.attention import attend
from glassformer.generate.program import (
    AttendOp,
    EmbedOp,
    LinearOp,
    NormOp,
    StepProgram,
    WriteKeysOp,
)
from glassformer.generate.slots import StaticCache, source_length

QUERIES = 16  # minimum size of a matrix product; a group of heads fills part of it
NO_LIMIT = 2**30
NO_TOKEN = -1
PROGRAMS = 512  # maximum number of attention programs, a few per multiprocessor
SLOTS = 40  # minimum number of slots per program
WIDE = 4096  # a product over a multiple of it is worth splitting
PART = 2048  # tokens of the vocabulary compared at once


class NormWeights(NamedTuple):
    """The weights of a norm as arguments of a kernel, and what kind it is."""

    weight: Tensor
    bias: Tensor
    eps: float
    kind: str


class ScoreBias(NamedTuple):
    """What attention adds to scores: slopes per head, or a table per bucket of distances."""

    kind: str
    table: Tensor
    buckets: Tensor


class TritonStep:
    """Decoding step over the rows of `slots`, which it advances by one.

    Args:
        net: The model.
        program: Its step program.
        slots: The keys and values of its rows.
    """

    def __init__(self, net: Transformer, program: StepProgram, slots: StaticCache) -> None:
        self.net, self.program, self.slots = net, program, slots
        weight = next(net.parameters())
        self.dtype, self.device = weight.dtype, weight.device
        self.rows = len(slots.position)
        self.early = weight.is_cuda and torch.cuda.get_device_capability() >= (9, 0)
        self.launch = {"launch_pdl": True} if self.early else {}
        self.none = torch.zeros(1, device=self.device)  # placeholder for unused kernel arguments
        self.uncounted = NO_TOKEN if program.uncounted_token is None else program.uncounted_token
        self.buffers = self.make_buffers()
        self.changes: dict[str, Tensor] = {}  # what is not yet added to a buffer
        self.biases: dict[nn.Module, ScoreBias] = {}
        self.angles: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self.make_tables()
        self.make_attention_workspace()

    def make_buffers(self) -> dict[str, Tensor]:
        """Returns the buffers; those that are sums are held in float32."""
        sums = set()
        for op in self.program.operations:
            if isinstance(op, EmbedOp | NormOp) or (isinstance(op, LinearOp) and op.add):
                sums.add(op.target)
        widths = {name: width for name, width in self.program.buffers.items() if name != "logits"}
        return {
            name: torch.empty(
                self.rows, width, dtype=torch.float32 if name in sums else self.dtype,
                device=self.device,
            )
            for name, width in widths.items()
        }  # fmt: skip

    def make_tables(self) -> None:
        """Computes what depends on positions alone."""
        assert self.net.decoder is not None
        for position in self.net.decoder.positions:
            every = torch.arange(self.slots.capacity, device=self.device)
            if isinstance(position, RotaryPosition):
                cos, sin = position.angles(every[None], torch.float32)
                self.angles[position] = cos[0, 0].contiguous(), sin[0, 0].contiguous()
            elif isinstance(position, T5Bias):
                buckets = position.bucket(-every).int()
                self.biases[position] = ScoreBias("buckets", position.weight, buckets)
            elif isinstance(position, AlibiBias):
                slopes = torch.tensor(alibi_slopes(position.heads), device=self.device)
                self.biases[position] = ScoreBias("alibi", slopes, self.none)

    def make_attention_workspace(self) -> None:
        attends = [op for op in self.program.operations if isinstance(op, AttendOp)]
        self.source_slots = source_length(self.slots)
        programs = self.rows * min(op.shape.heads for op in attends)
        most = max(1, min(32, PROGRAMS // programs))
        self.splits = max(1, min(most, self.slots.capacity // SLOTS))
        self.source_splits = max(1, min(most, self.source_slots // SLOTS))
        spots = self.rows * max(op.heads for op in attends) * max(self.splits, self.source_splits)
        dim = max(op.shape.head_dim for op in attends)
        width = max(self.program.buffers.values())
        self.parts = torch.empty(max(spots * dim, 2 * self.rows * width), device=self.device)
        self.tops, self.totals = torch.empty(2, spots, device=self.device)
        counters = max(self.rows * max(op.heads for op in attends), width)
        self.arrived = torch.zeros(counters, dtype=torch.int32, device=self.device)
        self.lengths = torch.full(
            (self.rows,), self.source_slots, dtype=torch.long, device=self.device
        )

    def __call__(self, tokens: Tensor) -> Tensor:
        """Maps tokens of [row, 1] to the next-token logits, [row, token]."""
        slots, logits = self.slots, self.none
        if slots.encoder_attention_mask is not None:
            self.lengths = slots.encoder_attention_mask.sum(-1)
        written: WriteKeysOp | None = None
        for op in self.program.operations:
            if isinstance(op, EmbedOp):
                self.embed(op, tokens)
            elif isinstance(op, NormOp):
                self.norm(op)
            elif isinstance(op, LinearOp):
                logits = self.row(op) if self.rows == 1 else self.several_rows(op)
            elif isinstance(op, WriteKeysOp):
                written = op
            else:
                self.attend(op, written)
                written = None
        slots.next.add_(1)
        if self.program.uncounted_token is None:
            slots.position.add_(1)
        else:
            slots.position.add_(tokens != self.program.uncounted_token)
        return logits

    # --- operations ----------------------------------------------------------------------------

    def embed(self, op: EmbedOp, tokens: Tensor) -> None:
        target, offset = self.flushed(op.target), 0
        width = target.shape[1]
        if op.positions is not None:
            table = self.net.get_submodule(op.positions)
            assert isinstance(table, PositionTable)
            offset = table.spec.offset
        kernels.embed[(self.rows,)](
            tokens, self.weight(op.table), self.weight(op.segments), self.weight(op.positions),
            self.slots.position, target, op.scale, offset, self.uncounted,
            self.program.uncounted_position, width, op.table is not None,
            op.segments is not None, op.positions is not None, triton.next_power_of_2(width),
        )  # fmt: skip

    def norm(self, op: NormOp) -> None:
        self.add_and_norm(op.source, op.norm, self.flushed(op.target, op.source), op.adds)

    def attend(self, op: AttendOp, written: WriteKeysOp | None) -> None:
        slots, shape = self.slots, op.shape
        keys, values = slots._cross[op.depth] if op.cross else slots.pair(op.depth)
        norms = query, key = (
            self.norm_weights(None if written is None else written.query_norm),
            self.norm_weights(None if written is None else written.key_norm),
        )
        assert op.cross or norms[0].kind == norms[1].kind
        rotary = None if written is None else written.position
        cos, sin = self.none, self.none
        if rotary is not None:
            cos, sin = self.angles[position_of(self.net, op.block)]
        bias = ScoreBias("none", self.none, self.none)
        if op.position is not None:
            bias = self.biases[position_of(self.net, op.block)]
        share = op.heads // shape.heads
        warps, at_once = (1, 32) if self.rows > 1 or share == 1 else (4, 64)
        splits = self.source_splits if op.cross else self.splits
        attend[(self.rows, shape.heads, splits)](
            self.buffers[op.source], keys, values, query.weight, query.bias, key.weight, key.bias,
            query.eps, cos, sin, bias.table, bias.buckets, slots.next, slots.begins,
            slots.position, self.lengths, self.parts, self.tops, self.totals, self.arrived,
            self.buffers[op.target], op.scale, op.softcap or 0.0,
            NO_LIMIT if op.left is None else op.left, keys.shape[2], op.heads, shape.heads,
            shape.head_dim, max(QUERIES, triton.next_power_of_2(shape.head_dim)), query.kind,
            0 if rotary is None else rotary.dim, rotary is not None and rotary.pairing == "pairs",
            bias.kind, op.cross, op.dilation, op.window_block or 0,
            1 if share == 1 else max(QUERIES, triton.next_power_of_2(share)), self.early,
            self.rows == 1 or share == 1, at_once=at_once, splits=splits, num_warps=warps,
            **self.launch,
        )  # fmt: skip

    def row(self, op: LinearOp) -> Tensor:
        """Executes a linear layer for one row."""
        linear = layer_of(self.net, op.layer)
        width, bias, norm = linear.in_features, linear.full_bias, self.norm_weights(op.norm)
        height = linear.out_features // (2 if op.gated else 1)
        out = self.target(op, height)
        rows, warps = kernels.row_shape(width, op.gated)
        kernels.project_row[(triton.cdiv(height, rows),)](
            self.buffers[op.source], norm.weight, norm.bias, norm.eps, linear.weight,
            self.none if bias is None else bias,
            self.none if op.add is None else self.buffers[op.add], out, height, op.scale,
            op.softcap or 0.0, width, norm.kind, op.activation, bias is not None, op.gated,
            op.add is not None, self.early, rows, triton.next_power_of_2(width), num_warps=warps,
            **self.launch,
        )  # fmt: skip
        return out

    def several_rows(self, op: LinearOp) -> Tensor:
        """Executes a linear layer for several rows.

        What it adds to a buffer may be kept in `changes`, until the buffer is read.
        """
        linear = layer_of(self.net, op.layer)
        x, height = self.input(op), linear.out_features // (2 if op.gated else 1)
        in_place = op.add == op.target
        if (op.gated and self.suits(x.shape[1], 128)) or (
            in_place and self.suits(x.shape[1], WIDE)
        ):
            out = self.flushed(op.target) if in_place else self.target(op, height)
            self.some_rows(op, x, linear, out)
            return out
        y = self.product(op, x, linear)
        if op.activation != "linear" or op.gated:
            out = self.target(op, height)
            kernels.activate[(self.rows, triton.cdiv(height, 1024))](
                y, out, height, op.gated, op.activation, self.early, 1024, num_warps=4,
                **self.launch,
            )  # fmt: skip
            return out
        if in_place:
            assert op.add is not None
            self.flushed(op.target)
            self.changes[op.add] = y
        elif op.add is not None:
            torch.add(self.flushed(op.add), y, out=self.buffers[op.target])
        elif op.target == "logits":
            y = y.float()
            return y if op.softcap is None else op.softcap * torch.tanh(y / op.softcap)
        else:
            self.buffers[op.target] = y
        return y

    # --- parts of operations -------------------------------------------------------------------

    def input(self, op: LinearOp) -> Tensor:
        """Returns scale * norm(source) in the dtype of the weights."""
        source = self.buffers[op.source]
        if (op.norm, op.scale, source.dtype) == (None, 1.0, self.dtype):
            return self.flushed(op.source)
        normed = torch.empty(self.rows, source.shape[1], dtype=self.dtype, device=self.device)
        self.add_and_norm(op.source, op.norm, normed, scale=op.scale)
        return normed

    def product(self, op: LinearOp, x: Tensor, linear: Linear) -> Tensor:
        padded = linear.with_spare_rows() if op.target == "logits" else None
        if padded is not None and linear.full_bias is None:
            return F.linear(x, padded)[:, : linear.out_features]
        return F.linear(x, linear.weight, linear.full_bias)

    def add_and_norm(
        self, source: str, norm: str | None, out: Tensor, accumulates: bool = False,
        scale: float = 1.0,
    ) -> None:  # fmt: skip
        """Adds a buffer's change to it; out [+]= scale * norm(buffer)."""
        stream, change = self.buffers[source], self.changes.pop(source, None)
        width, weights = stream.shape[1], self.norm_weights(norm)
        kernels.add_and_norm[(self.rows,)](
            stream, self.none if change is None else change, weights.weight, weights.bias,
            weights.eps, out, scale, width, weights.kind, change is not None, accumulates,
            self.early, triton.next_power_of_2(width), num_warps=4, **self.launch,
        )  # fmt: skip

    def some_rows(self, op: LinearOp, x: Tensor, linear: Linear, out: Tensor) -> None:
        height, bias = out.shape[1], linear.full_bias
        columns, at_once, splits = (64, 128, 1) if op.gated else (32, 256, 2)
        kernels.project_rows[(triton.cdiv(height, columns), splits)](
            x, linear.weight, self.none if bias is None else bias, out, self.parts, self.arrived,
            self.rows, height, linear.in_features, op.activation, bias is not None, op.gated,
            op.add is not None, self.early, max(16, triton.next_power_of_2(self.rows)), columns,
            at_once, splits, num_warps=4, num_stages=4, **self.launch,
        )  # fmt: skip

    def suits(self, width: int, multiple: int) -> bool:
        """Returns whether `some_rows` is faster than a cuBLAS product plus another launch."""
        return self.rows <= 64 and self.dtype != torch.float32 and width % multiple == 0

    def flushed(self, name: str, being_read: str | None = None) -> Tensor:
        """Returns a buffer after adding its change, which reading it as `being_read` will add."""
        change = self.changes.pop(name, None) if name != being_read else None
        if change is not None:
            self.buffers[name].add_(change)
        return self.buffers[name]

    def target(self, op: LinearOp, height: int) -> Tensor:
        """Returns where a linear layer writes, [row, height]."""
        if op.target != "logits":
            return self.buffers[op.target][:, :height]
        return torch.empty(self.rows, height, dtype=torch.float32, device=self.device)

    def weight(self, path: str | None) -> Tensor:
        """Returns the table of a module; a placeholder if there is none."""
        if path is None:
            return self.none
        weight: Any = self.net.get_submodule(path).weight
        assert isinstance(weight, Tensor)
        return weight

    def norm_weights(self, path: str | None) -> NormWeights:
        if path is None:
            return NormWeights(self.none, self.none, 0.0, "none")
        norm = self.net.get_submodule(path)
        assert isinstance(norm, LayerNorm | RMSNorm)
        bias = getattr(norm, "bias", None)
        if isinstance(norm, RMSNorm):
            kind = "offset" if norm.unit_offset else "rms"
        else:
            kind = "shiftless" if bias is None else "layer"
        return NormWeights(norm.weight, self.none if bias is None else bias, norm.eps, kind)


class BestToken:
    """Most probable token of every row, in two launches."""

    def __init__(self, rows: int, height: int, device: torch.device) -> None:
        self.rows, self.height, self.parts = rows, height, triton.cdiv(height, PART)
        self.best, self.total = torch.empty(2, rows, self.parts, device=device)
        self.where = torch.empty(rows, self.parts, dtype=torch.int32, device=device)

    def __call__(
        self, logits: Tensor, tokens: Tensor, made: Tensor, logprobs: Tensor, count: Tensor
    ) -> None:
        kernels.best_of_part[(self.rows, self.parts)](
            logits, logits.stride(0), self.best, self.where, self.total, self.height, self.parts,
            PART, num_warps=4,
        )  # fmt: skip
        kernels.choose_best[(self.rows,)](
            self.best, self.where, self.total, tokens, made, logprobs, count, made.shape[1],
            self.height, self.parts, triton.next_power_of_2(self.parts), num_warps=1,
        )  # fmt: skip
