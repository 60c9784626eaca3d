"""Binds a step program to the weights of a model, and executes it with step.cpp."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int32
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from glassformer.core import Transformer
from glassformer.core.embedding import PositionTable
from glassformer.core.norm import LayerNorm, RMSNorm
from glassformer.core.positions.alibi import AlibiBias, alibi_slopes
from glassformer.core.positions.rotary import RotaryPosition
from glassformer.core.positions.t5_bias import T5Bias
from glassformer.generate.backends.cpp import structures
from glassformer.generate.backends.cpp.build import library
from glassformer.generate.backends.cpp.structures import CppOp, NormNumbers, StepRows
from glassformer.generate.backends.support import ACTIVATIONS, layer_of, position_of
from glassformer.generate.program import (
    AttendOp,
    EmbedOp,
    KeyValueShape,
    LinearOp,
    NormOp,
    Operation,
    StepProgram,
    WriteKeysOp,
)
from glassformer.weights.int8 import Int8Weight
from glassformer.weights.quantization import QuantizedLinear

ROW_CHOICES = {"all": structures.ALL, "select": structures.SELECT, "selected": structures.SELECTED}


class KeyValueStore:
    """Keys and values of several texts, in one tensor of [2, line, head, slot, dim] per layer.

    Each text has a line of its own, and begins in slot 0.
    """

    def __init__(self, layers: Sequence[KeyValueShape], lines: int, capacity: int) -> None:
        self.capacity = capacity
        self.layers = [  # memory that is not touched is not committed
            torch.empty(2, lines, shape.heads, capacity, shape.head_dim) for shape in layers
        ]

    def copy(self, source: int, target: int, length: int) -> None:
        """Copies the first slots of a line to another."""
        for layer in self.layers:
            layer[:, target, :, :length] = layer[:, source, :, :length]


class StepInput(NamedTuple):
    """One token of a step, and the lines of its text and of its source."""

    token: int
    position: int
    line: int
    slot: int
    source_line: int = 0
    source_length: int = 0


class CppStep:
    """Executes steps of up to `rows` rows.

    The operations hold the addresses of the model's weights, which are not copied.

    Args:
        net: The model.
        program: Its step program.
        rows: The maximum number of rows.
        store: Keys and values of self-attention.
        sources: Keys and values of cross-attention; None for a decoder alone.
    """

    def __init__(
        self,
        net: Transformer,
        program: StepProgram,
        rows: int,
        store: KeyValueStore,
        sources: KeyValueStore | None = None,
    ) -> None:
        self.net, self.rows, self.store, self.sources = net, rows, store, sources
        self.held: list[Tensor] = []  # keeps the tensors alive that the operations point to
        self.angles: dict[nn.Module, tuple[int, int]] = {}
        self.int8_layers: dict[int, QuantizedLinear] = {}  # by the index of the operation
        self.buffers = {name: self.buffer(width) for name, width in program.buffers.items()}
        self.logits = self.buffers["logits"]
        linear = (
            layer_of(self.net, op.layer) for op in program.operations if isinstance(op, LinearOp)
        )
        self.middle = self.buffer(max(layer.out_features for layer in linear))
        bound = []
        for index, operation in enumerate(program.operations):
            bound.append(CppOp(**{"factor": 1.0, **self.fields(operation, index)}))
        self.operations = (CppOp * len(bound))(*bound)
        self.inputs = [(c_int32 * rows)() for _ in StepInput._fields]
        self.selected = (c_int32 * rows)()
        self.step_rows = StepRows(0, 0, *self.inputs, self.selected)

    def run(
        self, inputs: Sequence[StepInput], selected: Sequence[int], into: Tensor | None = None
    ) -> Tensor:
        """Returns the logits of the selected rows, [row, token].

        They are overwritten by the next step, unless written to `into`.
        """
        self.step_rows.rows, self.step_rows.num_selected = len(inputs), len(selected)
        for numbers, given in zip(self.inputs, zip(*inputs, strict=True), strict=True):
            numbers[: len(given)] = list(given)
        self.selected[: len(selected)] = list(selected)
        logits = self.logits if into is None else into
        last = self.operations[len(self.operations) - 1]
        last.middle = last.target = logits.data_ptr()
        compiled = library()
        assert compiled is not None
        compiled.run(
            self.operations,
            len(self.operations),
            ctypes.byref(self.step_rows),
            torch.get_num_threads(),
        )
        return logits[: len(selected)]

    def prepare_many_rows(self) -> None:
        """Gives int8 layers their weights in a second layout, which is faster for many rows."""
        while self.int8_layers:
            index, layer = self.int8_layers.popitem()
            kernel = layer.kernel()
            if isinstance(kernel, Int8Weight):
                self.operations[index].blocks = self.address(kernel.blocks)
                self.operations[index].block_sums = self.address(kernel.sums)

    # --- operations ----------------------------------------------------------------------------

    def fields(self, operation: Operation, index: int) -> dict[str, Any]:
        """Returns the fields of the structure of an operation."""
        if isinstance(operation, EmbedOp):
            return self.embed(operation)
        if isinstance(operation, NormOp):
            return self.norm_op(operation)
        if isinstance(operation, LinearOp):
            return self.linear(operation, index)
        if isinstance(operation, WriteKeysOp):
            return self.write(operation)
        return self.attend(operation)

    def embed(self, op: EmbedOp) -> dict[str, Any]:
        tables: dict[str, int] = {}
        dtype = torch.float32
        if op.table is not None:
            weight = self.tensor(f"{op.table}.weight")
            dtype, tables["weight"] = weight.dtype, self.address(weight)
        if op.segments is not None:
            segments = self.tensor(f"{op.segments}.weight")
            tables["segments"] = self.address(segments[0].to(dtype))
        if op.positions is not None:
            positions = self.net.get_submodule(op.positions)
            assert isinstance(positions, PositionTable)
            table = self.tensor(f"{op.positions}.weight").to(dtype)
            tables["positions"] = self.address(table) + (
                positions.spec.offset * table.shape[1] * table.element_size()
            )
        target = self.buffers[op.target]
        return {
            "kind": structures.EMBED,
            "form": structures.FORMS[dtype],
            "in_": target.shape[1],
            "target": target.data_ptr(),
            "factor": op.scale,
            **tables,
        }

    def norm_op(self, op: NormOp) -> dict[str, Any]:
        target = self.buffers[op.target].data_ptr()
        return {
            "kind": structures.NORM,
            "which_rows": ROW_CHOICES[op.rows],
            "in_": len(self.tensor(f"{op.norm}.weight")),
            "norm": self.norm(op.norm),
            "source": self.buffers[op.source].data_ptr(),
            "target": target,
            "add": target if op.adds else None,
        }

    def linear(self, op: LinearOp, index: int) -> dict[str, Any]:
        layer = layer_of(self.net, op.layer)
        scale: int | None = None
        if isinstance(layer, QuantizedLinear) and layer.kind == "int8":
            form, weight = structures.INT8, self.address(layer.codes)
            scale = self.address(layer.scale.float())
            self.int8_layers[index] = layer
        elif isinstance(layer, QuantizedLinear):
            form, weight = structures.INT4, self.address(layer.kernel().blocks)
        else:
            form, weight = structures.FORMS[layer.weight.dtype], self.address(layer.weight)
        bias, target = layer.full_bias, self.buffers[op.target]
        return {
            "kind": structures.LINEAR,
            "form": form,
            "which_rows": ROW_CHOICES[op.rows],
            "activation": ACTIVATIONS.index(op.activation),
            "gated": int(op.gated),
            "factor": op.scale,
            "cap": op.softcap or 0.0,
            "in_": layer.in_features,
            "out": layer.out_features,
            "weight": weight,
            "scale": scale,
            "bias": None if bias is None else self.address(bias.float()),
            "norm": NormNumbers() if op.norm is None else self.norm(op.norm),
            "source": self.buffers[op.source].data_ptr(),
            "add": None if op.add is None else self.buffers[op.add].data_ptr(),
            "middle": (target if op.target == "logits" else self.middle).data_ptr(),
            "target": target.data_ptr(),
        }

    def write(self, op: WriteKeysOp) -> dict[str, Any]:
        rotary: dict[str, Any] = {}
        if op.position is not None:
            position = position_of(self.net, op.block)
            assert isinstance(position, RotaryPosition)
            cos, sin = self.cos_sin(position)
            pairs = int(position.spec.pairing == "pairs")
            rotary = {"rotary_dim": position.spec.dim, "pairs": pairs, "cos": cos, "sin": sin}
        norms = {"norm": op.query_norm, "key_norm": op.key_norm}
        return {
            "kind": structures.WRITE,
            **self.heads(op),
            **rotary,
            **{name: self.norm(path) for name, path in norms.items() if path is not None},
        }

    def attend(self, op: AttendOp) -> dict[str, Any]:
        biases: Tensor | None = None
        if op.position is not None:
            distances = torch.arange(self.store.capacity - 1, -1, -1)
            biases = distance_biases(position_of(self.net, op.block), distances)
        return {
            "kind": structures.ATTEND,
            **self.heads(op),
            "left": structures.NO_LIMIT if op.left is None else op.left,
            "dilation": op.dilation,
            "window_block": op.window_block or 0,
            "factor": op.scale,
            "cap": op.softcap or 0.0,
            "biases": None if biases is None else self.address(biases),
            "target": self.buffers[op.target].data_ptr(),
        }

    def heads(self, op: WriteKeysOp | AttendOp) -> dict[str, Any]:
        """Returns the fields of the operations on heads."""
        store = self.sources if op.cross else self.store
        assert store is not None
        keys, values = store.layers[op.depth]
        read = op.heads if op.cross else op.heads + 2 * op.shape.heads
        return {
            "heads": op.heads,
            "key_heads": op.shape.heads,
            "dim": op.shape.head_dim,
            "cross": int(op.cross),
            "in_": read * op.shape.head_dim,
            "source": self.buffers[op.source].data_ptr(),
            "keys": keys.data_ptr(),
            "values": values.data_ptr(),
            "capacity": store.capacity,
        }

    # --- parts of operations -------------------------------------------------------------------

    def norm(self, path: str) -> NormNumbers:
        norm = self.net.get_submodule(path)
        if isinstance(norm, LayerNorm):
            shift = None if norm.bias is None else self.address(norm.bias.float())
            return NormNumbers(self.address(norm.weight.float()), shift, norm.eps, 1)
        assert isinstance(norm, RMSNorm)
        scale = norm.weight.float() + 1.0 if norm.unit_offset else norm.weight.float()
        return NormNumbers(self.address(scale), None, norm.eps, 0)

    def cos_sin(self, position: RotaryPosition) -> tuple[int, int]:
        """Returns the addresses of the cosines and sines of all positions, [position, dim]."""
        if position not in self.angles:
            positions = torch.arange(self.store.capacity)[None]
            cos, sin = position.angles(positions, torch.float32)
            self.angles[position] = self.address(cos[0, 0]), self.address(sin[0, 0])
        return self.angles[position]

    def tensor(self, path: str) -> Tensor:
        """Returns a parameter or a buffer of the model."""
        owner, _, name = path.rpartition(".")
        found = getattr(self.net.get_submodule(owner), name)
        assert isinstance(found, Tensor)
        return found.detach()

    def buffer(self, width: int) -> Tensor:
        """Returns a new buffer, [row, width]."""
        return torch.empty(self.rows, width)

    def address(self, x: Tensor) -> int:
        """Returns the address of a tensor, which is kept alive as long as the operations."""
        self.held.append(x.detach().contiguous())
        return self.held[-1].data_ptr()


def distance_biases(position: nn.Module, distances: Tensor) -> Tensor:
    """Returns what attention adds to the scores of keys that far before a query, [head, key]."""
    if isinstance(position, T5Bias):
        return position.weight.detach()[position.bucket(-distances)].T.float()
    assert isinstance(position, AlibiBias)
    slopes = torch.tensor(alibi_slopes(position.heads))
    return -slopes[:, None] * distances
