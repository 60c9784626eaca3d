"""Specs of the layers that embed token ids, audio and images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from glassformer.spec.common import NormSpec, require, require_dropout, require_sizes
from glassformer.spec.positions import PositionTableSpec


@dataclass(frozen=True, kw_only=True)
class AdaptiveSpec:
    """Clusters of the vocabulary, sorted by frequency, for adaptive embeddings and softmax.

    The clusters end before each cutoff and at the end of the vocabulary. Cluster i has vectors of
    width // div_value**i, which a matrix projects to the model's width; with div_value 1 all
    clusters share one table (Baevski and Auli; Transformer-XL).
    """

    cutoffs: tuple[int, ...]
    width: int
    div_value: int = 1

    def __post_init__(self) -> None:
        require(
            list(self.cutoffs) == sorted(set(self.cutoffs)) and 0 not in self.cutoffs,
            f"The cutoffs {self.cutoffs} leave a cluster empty; give them in ascending order.",
        )
        require(
            self.width >= self.div_value ** len(self.cutoffs) >= 1,
            f"A width of {self.width} cannot shrink by {self.div_value} for each of "
            f"{len(self.cutoffs)} cutoffs; choose a wider one, or fewer cutoffs.",
        )


@dataclass(frozen=True, kw_only=True)
class TokenEmbeddingSpec:
    """Embeds token ids: the sum of the configured tables, then norm and dropout.

    With `bag` a sentence becomes one vector, the sum of its word vectors; "ordered" weights each
    dimension by the position of the word in the sentence (Sukhbaatar et al., 4.1).
    """

    vocabulary: int
    embedding_size: int | None = None  # width of the tables if it is not the model's (ALBERT)
    project: Literal["sum", "token"] = (
        "sum"  # with `embedding_size`, what is projected to the model's
    )
    # width: the sum at the end, or only the token's vector, without bias, before the sum (OPT)
    adaptive: AdaptiveSpec | None = None  # a narrower table for each cluster of rarer words
    scale: float = 1.0  # multiplies the token's vector (sqrt(width) in Vaswani et al., 2017)
    position: PositionTableSpec | None = None
    segments: int = 0
    segments_are_tokens: bool = False  # segment ids index the token table (GPT)
    zero_padding: bool = False  # padding is embedded as zeros (a convolution would see it)
    languages: int = 0
    bag: Literal["plain", "ordered"] | None = None
    has_query_stream: bool = False  # a learned input vector of the query stream (XLNet)
    norm: NormSpec | None = None
    dropout: float = 0.0
    word_dropout: float = 0.0  # drops a word at all its positions in the batch

    def __post_init__(self) -> None:
        require_sizes(self, "embedding_size")
        require(self.vocabulary >= 0, f"A vocabulary cannot have {self.vocabulary} tokens.")
        require_dropout(self, "dropout", "word_dropout")


class SignalSpec:
    """Base class of specs for audio and images, which have no token ids and related settings."""

    vocabulary: ClassVar[int] = 0
    segments: ClassVar[int] = 0
    segments_are_tokens: ClassVar[bool] = False
    languages: ClassVar[int] = 0
    bag: ClassVar[None] = None
    has_query_stream: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class AudioFramesSpec(SignalSpec):
    """Embeds a spectrogram of [band, frame] (Whisper).

    Two convolutions over three frames each, both followed by GELU; the second halves the number of
    frames. Then positions are added.
    """

    num_mel_bins: int
    position: PositionTableSpec  # `length`: maximum vectors, half the frames
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_sizes(self, "num_mel_bins")
        require_dropout(self, "dropout")


@dataclass(frozen=True, kw_only=True)
class PatchEmbeddingSpec(SignalSpec):
    """Embeds an image of [channel, height, width] (ViT).

    The sequence is one learned vector, then one vector per patch, row by row. Positions are learned
    for images of size `image_size`, and interpolated for other sizes.
    """

    position: ClassVar[None] = None  # positions are two-dimensional, see `grid`
    channels: int
    image_size: tuple[int, int]  # height, width
    patch_size: tuple[int, int]
    has_mask_token: bool = False  # has a vector that replaces masked patches
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_sizes(self, "channels")
        require_dropout(self, "dropout")
        sides = zip(self.patch_size, self.image_size, strict=True)
        require(
            all(0 < small <= large for small, large in sides),
            f"Patches of {self.patch_size} pixels do not fit into images of {self.image_size}.",
        )

    @property
    def grid(self) -> tuple[int, int]:
        """The number of patch rows and patch columns."""
        return self.image_size[0] // self.patch_size[0], self.image_size[1] // self.patch_size[1]
