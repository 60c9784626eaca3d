"""How token ids, sounds and images become vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from glassformer.spec.common import NormSpec, require
from glassformer.spec.positions import PositionTableSpec


@dataclass(frozen=True, kw_only=True)
class AdaptiveSpec:
    """Frequent words first: clusters of the vocabulary that end before each cutoff and at its end.

    Cluster i has vectors of width // shrink**i, brought to the model's width by a matrix; with
    shrink 1 all share one table (Baevski and Auli; Transformer-XL).
    """

    cutoffs: tuple[int, ...]
    width: int
    shrink: int = 1

    def __post_init__(self) -> None:
        require(
            list(self.cutoffs) == sorted(set(self.cutoffs)) and 0 not in self.cutoffs,
            f"The cutoffs {self.cutoffs} leave a cluster empty; give them in ascending order.",
        )
        require(
            self.width >= self.shrink ** len(self.cutoffs) >= 1,
            f"A width of {self.width} cannot shrink by {self.shrink} for each of "
            f"{len(self.cutoffs)} cutoffs; choose a wider one, or fewer cutoffs.",
        )


@dataclass(frozen=True, kw_only=True)
class TokenEmbeddingSpec:
    """Token ids to vectors: the sum of the tables that are there, then norm and dropout.

    In a `bag` a sentence is one vector, the sum of its words'; `ordered` weighs each dimension by
    where in the sentence a word stands (Sukhbaatar et al., 4.1).
    """

    vocabulary: int
    factor: int | None = None  # width of the tables where it is not the model's (ALBERT)
    project: Literal["sum", "token"] = "sum"  # with `factor`: what is brought to the model's width,
    # all of it at the end, or the token's vector alone, without bias, before the others (OPT)
    adaptive: AdaptiveSpec | None = None  # a narrower table for every cluster of rarer words
    scale: float = 1.0  # multiplies the token's vector (sqrt(width) in 2017)
    position: PositionTableSpec | None = None
    segments: int = 0
    segments_are_tokens: bool = False  # segment ids look into the token table (GPT)
    zero_padding: bool = False  # padding is embedded as zeros (a convolution would see it)
    languages: int = 0
    bag: Literal["plain", "ordered"] | None = None
    asks: bool = False  # a learned vector for slots that ask what stands there (XLNet's queries)
    norm: NormSpec | None = None
    dropout: float = 0.0
    word_dropout: float = 0.0  # on whole words, wherever in the batch they stand


class SignalSpec:
    """What is not text: it has no token ids, and nothing that goes with them."""

    vocabulary: ClassVar[int] = 0
    segments: ClassVar[int] = 0
    segments_are_tokens: ClassVar[bool] = False
    languages: ClassVar[int] = 0
    bag: ClassVar[None] = None
    asks: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class AudioFramesSpec(SignalSpec):
    """A spectrogram of [band, frame] to vectors: two convolutions over three frames each, GELU
    after both; the second halves the frames. Then positions (Whisper)."""

    bands: int
    position: PositionTableSpec  # `length` is the most vectors there are, half as many as frames
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PatchEmbeddingSpec(SignalSpec):
    """An image of [channel, height, width] to vectors: one learned vector to begin with, then one
    for every patch, row by row. Positions are learned for images of `image`, and interpolated for
    those of another size (ViT)."""

    position: ClassVar[None] = None  # they are laid out in a plane, see `grid`
    channels: int
    image: tuple[int, int]  # height, width
    patch: tuple[int, int]
    blank: bool = False  # has a vector that stands in for patches that are hidden from it
    dropout: float = 0.0

    @property
    def grid(self) -> tuple[int, int]:
        """How many patches there are below and beside each other."""
        return self.image[0] // self.patch[0], self.image[1] // self.patch[1]
