"""A decoding step as a list of operations that step.cpp executes.

The list is built once for a model, with the addresses of its weights, which are not copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_float, c_int32, c_int64, c_void_p

import torch
from torch import Tensor, nn

from glassformer.core import Transformer
from glassformer.core.block import Block
from glassformer.core.embedding import Embedding
from glassformer.core.heads import Head
from glassformer.core.linear import Linear
from glassformer.core.norm import LayerNorm, RMSNorm
from glassformer.core.positions.alibi import AlibiBias, alibi_slopes
from glassformer.core.positions.rotary import RotaryPosition
from glassformer.generate.build import library
from glassformer.spec import AttentionPattern
from glassformer.weights.int8 import Int8Weight
from glassformer.weights.quantization import QuantizedLinear

EMBED, NORM, LINEAR, TURN, ATTEND = range(5)
FLOAT, BFLOAT, INT8, INT4 = range(4)
FORMS = {torch.float32: FLOAT, torch.bfloat16: BFLOAT}
ACTIVATIONS = (
    "linear",
    "relu",
    "relu2",
    "gelu",
    "gelu_tanh",
    "gelu_sigmoid",
    "silu",
    "tanh",
    "sigmoid",
)
NO_LIMIT = 2**30


class TapeNorm(ctypes.Structure):
    """Norm of an operation, as in step.cpp."""

    _fields_ = (("scale", c_void_p), ("shift", c_void_p), ("eps", c_float), ("centered", c_int32))


class Op(ctypes.Structure):
    """Operation, as in step.cpp."""

    _fields_ = (
        *((name, c_int32) for name in ("kind", "form", "activation", "gated", "last")),
        *((name, c_int32) for name in ("heads", "key_heads", "dim", "turned", "paired", "left")),
        *((name, c_float) for name in ("factor", "cap")),
        *((name, c_int64) for name in ("in_", "out")),
        *((name, c_void_p) for name in ("weight", "scale", "bias", "positions")),
        *((name, c_void_p) for name in ("cos", "sin", "slopes")),
        *((name, TapeNorm) for name in ("norm", "key_norm")),
        *((name, c_void_p) for name in ("source", "add", "middle", "target", "keys", "values")),
        ("capacity", c_int64),
        *((name, c_void_p) for name in ("blocks", "block_sums")),
    )


class TapeStep(ctypes.Structure):
    """Rows of a step, as in step.cpp."""

    _fields_ = (
        *((name, c_int32) for name in ("rows", "asked")),
        *((name, POINTER(c_int32)) for name in ("token", "line", "slot", "which")),
    )


class Tape:
    """Executes a step of up to `rows` rows.

    `store` holds keys and values, [layer, 2, line, head, slot, dim]: the tokens of a text are in
    one line of it, from slot 0 on.
    """

    def __init__(self, net: Transformer, rows: int, store: Tensor) -> None:
        self.net, self.rows, self.store = net, rows, store
        self.ops: list[Op] = []
        self.held: list[Tensor] = []  # keeps the tensors alive that the operations point to
        self.turns: dict[nn.Module, tuple[int, int]] = {}
        self.coded: dict[int, QuantizedLinear] = {}  # the layers of 8 bits by their operations
        self.write()
        self.tape = (Op * len(self.ops))(*self.ops)
        self.numbers = [(c_int32 * rows)() for _ in range(4)]
        self.step = TapeStep(0, 0, *self.numbers)

    def play(
        self,
        tokens: Sequence[int],
        lines: Sequence[int],
        slots: Sequence[int],
        asked: Sequence[int],
        into: Tensor | None = None,
    ) -> Tensor:
        """Returns logits of [row, token] for the rows in `asked`.

        They are overwritten by the next step, unless written to `into`.
        """
        self.step.rows, self.step.asked = len(tokens), len(asked)
        for numbers, given in zip(self.numbers, (tokens, lines, slots, asked), strict=True):
            numbers[: len(given)] = list(given)
        logits = self.logits if into is None else into
        head = self.tape[len(self.ops) - 1]
        head.middle = head.target = logits.data_ptr()
        done = library()
        assert done is not None
        done.play(self.tape, len(self.ops), ctypes.byref(self.step), torch.get_num_threads())
        return logits[: len(asked)]

    def read_blocks(self) -> None:
        """Makes layers of 8 bits read many rows in the layout that is fastest for them."""
        while self.coded:
            place, layer = self.coded.popitem()
            kernel = layer.kernel()
            if isinstance(kernel, Int8Weight):
                self.tape[place].blocks = self.at(kernel.blocks)
                self.tape[place].block_sums = self.at(kernel.sums)

    # --- building the list ---------------------------------------------------------------------

    def write(self) -> None:
        stack, spec = self.net.decoder, self.net.spec.decoder
        assert stack is not None and spec is not None
        embed = stack.embed
        assert isinstance(embed, Embedding)
        blocks = spec.attention_blocks
        x, other, part = (self.room(spec.width) for _ in range(3))
        self.sums = self.room(
            max(m.out_features for b in stack.blocks for m in b.modules() if isinstance(m, Linear))
        )
        self.asks = self.room(
            max(
                (b.attention.heads + 2 * b.attention.key_heads) * b.attention.head_dim
                for b in blocks
            )
        )
        self.seen = self.room(max(b.attention.heads * b.attention.head_dim for b in blocks))
        self.hidden = self.room(max(b.ffn.width for b in blocks))
        self.embed(embed, x)
        for depth, index in enumerate(spec.order):
            block, place = stack.blocks[index], stack.position_of[index]
            assert isinstance(block, Block)
            position = None if place is None else stack.positions[place]
            self.block(block, position, depth, x, other, part)
        head = self.net.heads[self.net.spec.heads[0].name]
        assert isinstance(head, Head) and isinstance(head.out, Linear)
        self.logits = self.room(head.out.out_features)
        norm = stack.final_norm if spec.final_norm is not None else None
        cap = head.spec.softcap or 0.0
        self.linear(head.out, x, self.logits, norm=norm, last=1, cap=cap)

    def embed(self, embed: Embedding, x: Tensor) -> None:
        weight, positions = embed.token.weight, None
        assert isinstance(weight, Tensor)
        if embed.spec.position is not None:
            table = embed.position.weight.detach()
            assert isinstance(table, Tensor)
            positions = self.at(table.to(weight.dtype)[embed.spec.position.offset :])
        self.add(
            EMBED,
            form=FORMS[weight.dtype],
            factor=embed.spec.scale,
            in_=x.shape[1],
            weight=self.at(weight),
            positions=positions,
            target=x.data_ptr(),
        )
        if embed.spec.norm is not None:
            self.norm(embed.norm, x, x)

    def block(
        self,
        block: Block,
        position: nn.Module | None,
        depth: int,
        x: Tensor,
        other: Tensor,
        part: Tensor,
    ) -> None:
        spec = block.spec
        before = spec.placement != "post"
        norm = block.attention_norm if before and spec.attention_normed else None
        self.linear(block.attention.qkv, x, self.asks, norm=norm)
        self.attention(block, position, depth)
        if spec.residual == "serial":
            self.change(block, "attention", block.attention.out, self.seen, x, part)
            self.widen(block, x, block.ffn_norm if before else None)
            self.change(block, "ffn", block.ffn.down, self.hidden, x, part)
        else:
            self.linear(block.attention.out, self.seen, other, add=x)
            self.widen(block, x, block.ffn_norm if spec.residual == "parallel" else norm)
            self.linear(block.ffn.down, self.hidden, x, add=other)

    def change(
        self, block: Block, name: str, linear: Linear, source: Tensor, x: Tensor, part: Tensor
    ) -> None:
        """Adds a sublayer's output to the residual stream, with the norm that may follow."""
        if block.spec.placement == "sandwich":
            self.linear(linear, source, part)
            self.norm(getattr(block, f"{name}_norm_out"), part, x, adds=True)
            return
        self.linear(linear, source, x, add=x)
        if block.spec.placement == "post":
            self.norm(getattr(block, f"{name}_norm"), x, x)

    def widen(self, block: Block, x: Tensor, norm: nn.Module | None) -> None:
        ffn, up = block.ffn.spec, block.ffn.up
        activation = ACTIVATIONS.index(ffn.activation)
        self.linear(up, x, self.hidden, norm, activation=activation, gated=int(ffn.gated))

    def attention(self, block: Block, position: nn.Module | None, depth: int) -> None:
        attention, pattern = block.spec.attention, block.spec.pattern
        assert isinstance(pattern, AttentionPattern)
        keys, values = self.store[depth]
        shape = {
            "heads": attention.heads,
            "key_heads": attention.key_heads,
            "dim": attention.head_dim,
            "in_": block.attention.qkv.out_features,
            "source": self.asks.data_ptr(),
            "keys": keys.data_ptr(),
            "values": values.data_ptr(),
            "capacity": self.store.shape[4],
        }
        norms = {}
        if attention.qk_norm is not None:
            norms["norm"] = self.normed(block.attention.q_norm)
            norms["key_norm"] = self.normed(block.attention.k_norm)
        turn = {}
        if isinstance(position, RotaryPosition):
            cos, sin = self.turning(position)
            paired = position.spec.pairing == "pairs"
            turn = {"turned": position.spec.dim, "paired": int(paired), "cos": cos, "sin": sin}
        self.add(TURN, **shape, **norms, **turn)
        slopes = None
        if isinstance(position, AlibiBias):
            slopes = self.at(torch.tensor(alibi_slopes(position.heads)))
        self.add(
            ATTEND,
            **shape,
            left=NO_LIMIT if pattern.left is None else pattern.left,
            factor=block.attention.attend.scale,
            cap=attention.softcap or 0.0,
            slopes=slopes,
            target=self.seen.data_ptr(),
        )

    def turning(self, position: RotaryPosition) -> tuple[int, int]:
        """Returns the addresses of cosines and sines of all positions, [position, dim]."""
        if position not in self.turns:
            places = torch.arange(self.store.shape[4])[None]
            cos, sin = position.angles(places, torch.float32)
            self.turns[position] = self.at(cos[0, 0]), self.at(sin[0, 0])
        return self.turns[position]

    def linear(
        self,
        layer: Linear,
        source: Tensor,
        target: Tensor,
        norm: nn.Module | None = None,
        add: Tensor | None = None,
        **more: float,
    ) -> None:
        scale: int | None = None
        if isinstance(layer, QuantizedLinear) and layer.kind == "int8":
            form, weight, scale = INT8, self.at(layer.codes), self.at(layer.scale.float())
            self.coded[len(self.ops)] = layer
        elif isinstance(layer, QuantizedLinear):
            form, weight = INT4, self.at(layer.kernel().blocks)
        else:
            form, weight = FORMS[layer.weight.dtype], self.at(layer.weight)
        bias = layer.full_bias
        self.add(
            LINEAR,
            form=form,
            in_=layer.in_features,
            out=layer.out_features,
            weight=weight,
            scale=scale,
            bias=None if bias is None else self.at(bias.float()),
            norm=TapeNorm() if norm is None else self.normed(norm),
            source=source.data_ptr(),
            add=None if add is None else add.data_ptr(),
            middle=(target if more.get("last") else self.sums).data_ptr(),
            target=target.data_ptr(),
            **more,
        )

    def norm(self, norm: nn.Module, source: Tensor, target: Tensor, adds: bool = False) -> None:
        pointers = {"source": source.data_ptr(), "target": target.data_ptr()}
        add = target.data_ptr() if adds else None
        self.add(NORM, in_=source.shape[1], norm=self.normed(norm), add=add, **pointers)

    def normed(self, norm: nn.Module) -> TapeNorm:
        if isinstance(norm, LayerNorm):
            shift = None if norm.bias is None else self.at(norm.bias.float())
            return TapeNorm(self.at(norm.weight.float()), shift, norm.eps, 1)
        assert isinstance(norm, RMSNorm)
        scale = norm.weight.float() + 1.0 if norm.unit_offset else norm.weight.float()
        return TapeNorm(self.at(scale), None, norm.eps, 0)

    def add(self, kind: int, **fields: object) -> None:
        self.ops.append(Op(kind=kind, **fields))

    def room(self, width: int) -> Tensor:
        """[row, width]"""
        x = torch.empty(self.rows, width)
        self.held.append(x)
        return x

    def at(self, x: Tensor) -> int:
        """Returns the address of a tensor, which is kept alive as long as the tape."""
        self.held.append(x.detach().contiguous())
        return self.held[-1].data_ptr()
