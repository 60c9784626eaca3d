"""Embeddings of audio and images, and the inverse for images."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core.embedding import Embedding, PositionTable
from glassformer.core.pass_context import PassContext
from glassformer.errors import InputError
from glassformer.spec import AudioFramesSpec, PatchEmbeddingSpec, TokenEmbeddingSpec


class SignalEmbedding(nn.Module):
    """Base class of embeddings of audio and images. Masks cover the embedded vectors."""

    axes: ClassVar[int]  # of one input, excluding the batch axis

    def forward(
        self, signal: Tensor, ctx: PassContext, segments: Tensor | None, languages: Tensor | None
    ) -> Tensor:
        if segments is not None or languages is not None:
            raise InputError(
                "Only text inputs have token_type_ids and language_ids; leave them out."
            )
        x = self.vectors(signal, ctx)
        if ctx.key_mask is not None and ctx.key_mask.shape[1] != x.shape[1]:
            raise InputError(
                f"The signal becomes {x.shape[1]} vectors, and the mask is "
                f"{list(ctx.key_mask.shape)}; give one number for each vector, or none."
            )
        return ctx.hook_point("embed", x)

    def query_stream(self, asked: Tensor) -> Tensor:
        raise InputError("Only text inputs can have a permutation; leave it out.")

    def vectors(self, signal: Tensor, ctx: PassContext) -> Tensor:
        raise NotImplementedError

    def length(self, signal: Tensor) -> int:
        """Validates the signal, and returns the number of vectors that it becomes."""
        raise NotImplementedError


class FrameEmbedding(SignalEmbedding):
    """Embeds spectrograms of [batch, band, frame]."""

    axes = 2

    def __init__(self, width: int, spec: AudioFramesSpec) -> None:
        super().__init__()
        self.spec = spec
        self.near = nn.Conv1d(spec.num_mel_bins, width, 3, padding=1)
        self.halve = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.position = PositionTable(spec.position, width)

    def length(self, signal: Tensor) -> int:
        *_, bands, frames = signal.shape
        most = 2 * self.spec.position.length
        if signal.ndim != 3 or bands != self.spec.num_mel_bins or not 0 < frames <= most:
            raise InputError(
                f"The model reads spectrograms of [batch, {self.spec.num_mel_bins} bands, up to "
                f"{most} frames], and this one is {list(signal.shape)}; see glassformer.signals."
            )
        return (frames + 1) // 2

    def vectors(self, signal: Tensor, ctx: PassContext) -> Tensor:
        x = F.gelu(self.near(signal.to(self.near.weight.dtype)))
        x = F.gelu(self.halve(x)).transpose(1, 2)  # [batch, position, width]
        x = x + self.position.weight[: x.shape[1]]
        return F.dropout(x, self.spec.dropout, self.training)


class PatchEmbedding(SignalEmbedding):
    """Embeds images of [batch, channel, height, width]."""

    axes = 3

    def __init__(self, width: int, spec: PatchEmbeddingSpec) -> None:
        super().__init__()
        self.spec = spec
        self.patch = nn.Conv2d(spec.channels, width, spec.patch_size, stride=spec.patch_size)
        rows, columns = spec.grid
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, 1 + rows * columns, width))
        if spec.has_mask_token:
            self.blank = nn.Parameter(torch.zeros(1, 1, width))

    def grid(self, image: Tensor) -> tuple[int, int]:
        height, width = image.shape[-2:]
        return height // self.spec.patch_size[0], width // self.spec.patch_size[1]

    def length(self, signal: Tensor) -> int:
        rows, columns = self.grid(signal)
        if signal.ndim != 4 or signal.shape[1] != self.spec.channels or not rows * columns:
            least = " x ".join(map(str, self.spec.patch_size))
            raise InputError(
                f"The model reads images of [batch, {self.spec.channels} channels, height, width] "
                f"from {least} pixels on, and this one is {list(signal.shape)}; see "
                "glassformer.signals.image_processor."
            )
        return 1 + rows * columns

    def vectors(self, signal: Tensor, ctx: PassContext) -> Tensor:
        x = self.patch(signal.to(self.patch.weight.dtype)).flatten(2).transpose(1, 2)
        if ctx.bool_masked_pos is not None:
            if ctx.bool_masked_pos.shape != x.shape[:2]:
                raise InputError(
                    f"The image has {x.shape[1]} patches, and bool_masked_pos is "
                    f"{list(ctx.bool_masked_pos.shape)}."
                )
            x = torch.where(ctx.bool_masked_pos[..., None].bool(), self.blank, x)
        x = torch.cat((self.first.expand(len(x), -1, -1), x), 1)  # [batch, 1 + patch, width]
        return F.dropout(x + self.positions(self.grid(signal)), self.spec.dropout, self.training)

    def positions(self, grid: tuple[int, int]) -> Tensor:
        if grid == self.spec.grid:
            return self.position
        first, table = self.position[:, :1], self.position[:, 1:]
        table = table.transpose(1, 2).reshape(1, -1, *self.spec.grid)  # [1, width, row, column]
        table = F.interpolate(table, grid, mode="bicubic", align_corners=False)
        return torch.cat((first, table.flatten(2).transpose(1, 2)), 1)


def make_embedding(
    width: int, spec: TokenEmbeddingSpec | AudioFramesSpec | PatchEmbeddingSpec
) -> Embedding | SignalEmbedding:
    if isinstance(spec, TokenEmbeddingSpec):
        return Embedding(width, spec)
    return (
        FrameEmbedding(width, spec)
        if isinstance(spec, AudioFramesSpec)
        else PatchEmbedding(width, spec)
    )


def unpatchify(patches: Tensor, grid: tuple[int, int], side: int) -> Tensor:
    """Assembles predicted patches into an image of [batch, channel, height, width].

    Args:
        patches: [batch, 1 + patch, channel * side * side].
        grid: Number of patch rows and columns.
        side: Side of a patch in pixels.
    """
    tiles = patches[:, 1:].transpose(1, 2).reshape(len(patches), -1, *grid)
    return F.pixel_shuffle(tiles, side)
