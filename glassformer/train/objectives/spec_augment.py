"""Augmentation of sounds: SpecAugment (Park et al., 2019) and speed perturbation (Ko et al., 2015).

Both are functions of the sound and of the random numbers of its row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.signals.wav import resample
from glassformer.train.objectives.row_random import RowRandom
from glassformer.train.objectives.rows import Lengths, RaggedColumn

MOST = 0.5  # by how much a speed may differ from 1
MASKED = 0.0  # the value of masked bins, as in transformers


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """Options of the augmentation of sounds; an evaluation hears them as they are.

    With a `speed_perturbation` of 0.1, each sound is played at 0.9, 1.0 or 1.1 times its speed: at
    0.9 it is longer and lower. One that would become longer than the model hears keeps its speed.

    SpecAugment masks `freq_masks` ranges of frequencies and `time_masks` ranges of time of the
    spectrogram. A range has from 0 to `freq_mask_param` bands, or from 0 to `time_mask_param`
    frames, but at most a fraction `time_mask_ratio` of the sound's frames (F, T and p in the
    paper). Without `freq_mask_param` it is a third of the bands: 27 of 80, as in the paper. Time is
    not warped.
    """

    speed_perturbation: float = 0.1
    freq_masks: int = 2
    freq_mask_param: int | None = None
    time_masks: int = 2
    time_mask_param: int = 100
    time_mask_ratio: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.speed_perturbation <= MOST:
            raise ConfigError(
                f"objective.speed_perturbation must lie between 0 and {MOST}, not "
                f"{self.speed_perturbation}."
            )
        for name in ("freq_masks", "freq_mask_param", "time_masks", "time_mask_param"):
            if (getattr(self, name) or 0) < 0:
                raise ConfigError(f"objective.{name} must be 0 or more, not {getattr(self, name)}.")
        if not 0 <= self.time_mask_ratio <= 1:
            raise ConfigError(
                f"objective.time_mask_ratio must lie between 0 and 1, not {self.time_mask_ratio}."
            )

    def drawn_speeds(self, draws: RowRandom) -> NDArray[np.float64]:
        """Returns the speed of each row."""
        changes = np.array([-1.0, 0.0, 1.0])[draws.below("speed", 3)]
        speeds: NDArray[np.float64] = 1.0 + self.speed_perturbation * changes
        return speeds

    def masked_bands(self, draws: RowRandom, bands: int) -> RaggedColumn | None:
        """Returns the masked ranges of bands of each row, as start and end one after the other."""
        most = round(bands / 3) if self.freq_mask_param is None else self.freq_mask_param
        sizes = np.full(len(draws), bands)
        return _ranges(draws.child("frequency"), self.freq_masks, np.minimum(sizes, most), sizes)

    def masked_frames(self, draws: RowRandom, frames: Lengths) -> RaggedColumn | None:
        """Returns the masked ranges of frames of rows with so many frames, as `masked_bands`."""
        most = np.minimum((frames * self.time_mask_ratio).astype(np.int64), self.time_mask_param)
        return _ranges(draws.child("time"), self.time_masks, most, frames)


def _ranges(draws: RowRandom, count: int, most: Lengths, sizes: Lengths) -> RaggedColumn | None:
    """Draws `count` ranges of each row, at most `most` long, within its size."""
    if not count or not len(sizes):
        return None
    widths = (draws.grid("width", count) * (most[:, None] + 1)).astype(np.int64)  # [row, range]
    starts = (draws.grid("start", count) * (sizes[:, None] - widths + 1)).astype(np.int64)
    both = np.stack((starts, starts + widths), axis=-1).astype(np.int32)
    return RaggedColumn(both.reshape(-1), np.full(len(sizes), 2 * count))


def mask_spectrograms(
    features: Tensor, bands: RaggedColumn | None, frames: RaggedColumn | None
) -> Tensor:
    """Returns spectrograms, [row, band, frame], with the drawn ranges masked."""
    hidden = torch.zeros(features.shape, dtype=torch.bool)
    for row, (start, end) in _each(bands):
        hidden[row, start:end] = True
    for row, (start, end) in _each(frames):
        hidden[row, :, start:end] = True
    return features.masked_fill(hidden, MASKED)


def _each(ranges: RaggedColumn | None) -> list[tuple[int, tuple[int, int]]]:
    if ranges is None:
        return []
    pairs = ranges.values.reshape(-1, 2).tolist()
    return [(row, (start, end)) for row, (start, end) in zip(ranges.rows[::2], pairs, strict=True)]


def at_speed(samples: Tensor, speed: float, rate: int) -> Tensor:
    """Returns a sound, [sample], played at another speed: 1.1 makes it a tenth faster and higher.

    The samples are read as if they had been recorded at `speed` times their rate.
    """
    return resample(samples, round(rate * speed), rate)
