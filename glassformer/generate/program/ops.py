"""The operations of a decoder step, which name modules and buffers but hold no tensors.

A step reads one token per row. Each operation reads buffers of [row, width] and writes one. Modules
are named by their path in the `Transformer`, as `get_submodule` takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from glassformer.spec import Activation, AlibiSpec, RotarySpec, T5BiasSpec

Rows = Literal["all", "select", "selected"]
"""Which rows an operation computes: all of them; those whose logits are asked for, selected from
the source; or the same where the source holds only those."""


@dataclass(frozen=True, kw_only=True)
class EmbedOp:
    """target = table[token] * scale + first row of `segments` + positions[position].

    Without a table, the other terms are added to the target.
    """

    target: str
    table: str | None = None
    scale: float = 1.0
    segments: str | None = None
    positions: str | None = None


@dataclass(frozen=True, kw_only=True)
class NormOp:
    """target = norm(source), or target + norm(source)."""

    norm: str
    source: str
    target: str
    adds: bool = False
    rows: Rows = "all"


@dataclass(frozen=True, kw_only=True)
class LinearOp:
    """target = add + cap(activation(layer(scale * norm(source)))).

    If it is gated, the layer's output is two halves, the first of which is activated and multiplied
    by the second.
    """

    layer: str
    source: str
    target: str
    norm: str | None = None
    scale: float = 1.0
    activation: Activation = "linear"
    gated: bool = False
    softcap: float | None = None
    add: str | None = None
    rows: Rows = "all"


@dataclass(frozen=True, kw_only=True)
class KeyValueShape:
    """Heads of the keys and values that a layer stores per token, and their size."""

    heads: int
    head_dim: int


@dataclass(frozen=True, kw_only=True)
class WriteKeysOp:
    """Norms queries and keys per head, rotates them, and stores keys and values.

    For cross-attention, whose keys and values are stored before the first step, only the queries
    are normed.
    """

    depth: int
    block: int
    source: str
    heads: int
    shape: KeyValueShape
    cross: bool = False
    query_norm: str | None = None
    key_norm: str | None = None
    position: RotarySpec | None = None


@dataclass(frozen=True, kw_only=True)
class AttendOp:
    """target = softmax(cap(scale * queries keys^T) + bias) values, per head.

    A query sees the keys of its own text from `left` positions before it, within its `window_block`
    and at multiples of `dilation` from it; in cross-attention, all keys of its source.
    """

    depth: int
    block: int
    source: str
    target: str
    heads: int
    shape: KeyValueShape
    scale: float
    cross: bool = False
    softcap: float | None = None
    left: int | None = None
    dilation: int = 1
    window_block: int | None = None
    position: T5BiasSpec | AlibiSpec | None = None


Operation = EmbedOp | NormOp | LinearOp | WriteKeysOp | AttendOp


@dataclass(frozen=True, kw_only=True)
class StepProgram:
    """A decoder step.

    Attributes:
        operations: The operations, in order; the last writes the logits.
        buffers: The width of each buffer, by its name.
        self_attention: What each layer stores per token, by its depth.
        cross_attention: What each layer stores per token of the source; empty without an encoder.
        uncounted_token: A token that takes no position (fairseq's padding); None if there is none.
        uncounted_position: The position whose vector that token gets.
    """

    operations: tuple[Operation, ...]
    buffers: dict[str, int]
    self_attention: tuple[KeyValueShape, ...]
    cross_attention: tuple[KeyValueShape, ...]
    uncounted_token: int | None
    uncounted_position: int
