"""Specs of position encodings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from glassformer.spec.common import NormSpec, require, require_sizes


@dataclass(frozen=True, kw_only=True)
class PositionTableSpec:
    """One vector per absolute position, added to the token's embedding.

    The sinusoid layouts: "interleaved" alternates the sine and cosine of each frequency (the paper
    of 2017, XLM); "halves" puts all sines before all cosines (Marian, CTRL); "inclusive" is
    "halves" with the slowest frequency exactly 1/10,000 (tensor2tensor, fairseq).
    """

    length: int
    layout: Literal["learned", "interleaved", "halves", "inclusive"] = "learned"
    offset: int = 0  # position 0 is row `offset`
    padding_idx: int | None = None  # this token id is not counted (RoBERTa, fairseq)
    every_layer: bool = False  # each layer adds its own table to its input

    def __post_init__(self) -> None:
        require_sizes(self, "length")


@dataclass(frozen=True, kw_only=True)
class RotaryScaling:
    """Scales rotary frequencies to extend the context beyond the trained length."""

    kind: Literal["linear", "llama3", "yarn"]
    factor: float
    trained_length: int
    low: float = 1.0  # llama3: low_freq_factor; yarn: beta_slow
    high: float = 4.0  # llama3: high_freq_factor; yarn: beta_fast
    magnitude: float = 1.0  # factor of sines and cosines (yarn)
    truncate: bool = True  # yarn: round the band of mixed frequencies to whole dimensions

    def __post_init__(self) -> None:
        for name in ("factor", "trained_length", "high", "magnitude"):
            value = getattr(self, name)
            require(
                math.isfinite(value) and value > 0,
                f"The {self.kind} scaling of rotary positions has {name} = {value}; it must be a "
                "finite number above 0.",
            )
        require(
            0 <= self.low < self.high or self.kind != "llama3",
            f"The llama3 scaling of rotary positions has low = {self.low} and high = {self.high}; "
            "low must be at least 0 and below high.",
        )


@dataclass(frozen=True, kw_only=True)
class RotarySpec:
    """Rotary position embedding: rotates queries and keys by an angle proportional to the position.

    "halves" pairs dimension j with j + dim/2 (Llama, GPT-NeoX), "pairs" pairs 2j with 2j + 1 (the
    paper, GPT-J). Dimensions beyond `dim` are not rotated (partial rotary). `length` is the number
    of positions that the model was trained for, with `scaling` applied. Longer inputs can be
    computed, but the predictions there are useless.
    """

    name: ClassVar[str] = "rotary"

    dim: int
    theta: float = 10_000.0
    pairing: Literal["halves", "pairs"] = "halves"
    scaling: RotaryScaling | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        require_sizes(self, "dim", "length")
        require(self.dim % 2 == 0, f"Rotary positions turn pairs of dimensions, not {self.dim}.")
        require(
            math.isfinite(self.theta) and self.theta > 0,
            f"Rotary positions have theta = {self.theta}; it must be a finite number above 0.",
        )
        require(
            self.theta > 1 or self.scaling is None or self.scaling.kind != "yarn",
            f"Rotary positions with yarn have theta = {self.theta}; it must be above 1.",
        )


@dataclass(frozen=True, kw_only=True)
class T5BiasSpec:
    """T5's bias: one learned number per head and distance bucket, shared by a stack."""

    name: ClassVar[str] = "buckets"

    num_buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True

    def __post_init__(self) -> None:
        exact = self.num_buckets // (4 if self.bidirectional else 2)
        require(
            0 < exact < self.max_distance,
            f"{self.num_buckets} buckets cannot hold distances up to {self.max_distance}; "
            "choose at least 4 buckets, and a larger distance.",
        )


@dataclass(frozen=True, kw_only=True)
class AlibiSpec:
    """ALiBi: a penalty linear in the distance, with a fixed slope per head."""

    name: ClassVar[str] = "alibi"


@dataclass(frozen=True, kw_only=True)
class ShawSpec:
    """A learned vector per clipped distance, multiplied with the query, in every layer.

    `backward` has vectors only for keys at or before the query; with `per_head` each head learns
    its own (Music Transformer).
    """

    name: ClassVar[str] = "shaw"

    max_distance: int
    backward: bool = False
    per_head: bool = False
    values: bool = True  # also add a learned vector per distance to the values (Shaw et al., 3.2)

    def __post_init__(self) -> None:
        require_sizes(self, "max_distance")


@dataclass(frozen=True, kw_only=True)
class DisentangledSpec:
    """DeBERTa's disentangled attention: content-to-position and position-to-content scores.

    A table of 2 * span vectors, shared by the stack, has one row per distance from -span on; with
    `max_distance`, distances beyond span / 2 share rows on a log scale. Each layer projects the
    table to keys and queries, either with its content matrices (`shared_projections`) or with
    separate ones.
    """

    name: ClassVar[str] = "disentangled"

    span: int
    max_distance: int | None = None
    content_to_position: bool = True
    position_to_content: bool = True
    shared_projections: bool = True
    key_bias: bool = True  # of the separate matrix for keys
    norm: NormSpec | None = None

    def __post_init__(self) -> None:
        require_sizes(self, "span", "max_distance")
        middle, most = self.span // 2, self.max_distance
        require(
            most is None or (middle > 0 and most > 1 and most != middle + 1),
            f"A log scale over {self.span} buckets cannot reach the distance {most}; choose at "
            "least 2 buckets, and a larger distance.",
        )


@dataclass(frozen=True, kw_only=True)
class RelativePositionSpec:
    """Transformer-XL's score (q + u) . k + (q + v) . W r, with r the sinusoids of the distance.

    Every layer has its own W; u and v belong to the layer or are shared by the stack
    (`shared_biases`). With `segments` the term (q + s) . segment scores whether both tokens belong
    to the same segment (XLNet).
    """

    name: ClassVar[str] = "relative"

    clamp_length: int | None = None  # distances are clipped to this
    bidirectional: bool = False  # also attends to later keys, at negative distances
    shared_biases: bool = False
    segments: bool = False


PositionSpec = (
    RotarySpec | T5BiasSpec | AlibiSpec | ShawSpec | DisentangledSpec | RelativePositionSpec
)
