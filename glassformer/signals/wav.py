"""Reads .wav files as samples between -1 and 1, and resamples audio.

The standard library reads the files; resampling is written here, because torch and numpy have none.
"""

from __future__ import annotations

import math
import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import DataError, InputError

REACH = 16  # zero crossings of the sinc on either side
ROLLOFF = 0.95  # the fraction of the narrower band that is kept
LOWEST_RATE, HIGHEST_RATE = 1_000, 768_000  # samples per second
BLOCK = 2**19  # products of samples and weights that are held at a time


def read_wav(path: str | Path) -> tuple[Tensor, int]:
    """Returns the mean of the channels, [sample], and the number of samples per second."""
    try:
        with wave.open(str(path), "rb") as file:
            channels, size, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            most = Path(path).stat().st_size // max(1, channels * size) + 1
            data = file.readframes(min(file.getnframes(), most))  # a header may name 4 GB
    except FileNotFoundError:
        raise DataError(f"The file {path} does not exist.", path=path) from None
    except (wave.Error, EOFError, OSError, RuntimeError) as error:  # RuntimeError: a bad length
        raise DataError(
            f"{path} cannot be read as a PCM .wav file ({error or 'its parts do not fit'}); "
            f"convert it, for example with ffmpeg -i {path} -c:a pcm_s16le sound.wav.",
            path=path,
        ) from None
    if size > 4 or not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise DataError(
            f"{path} has {rate:,} samples a second of {8 * size} bits; sounds of "
            f"{LOWEST_RATE:,} to {HIGHEST_RATE:,} a second and up to 32 bits are read.",
            path=path,
        )
    if len(data) % (size * channels):
        raise DataError(f"{path} ends in the middle of a sample; get it again.", path=path)
    samples = pcm_samples(data, size).reshape(-1, channels).mean(1)
    return torch.from_numpy(samples.astype(np.float32)), rate


def pcm_samples(data: bytes, size: int) -> Any:
    """Converts PCM data to numbers between -1 and 1.

    8 bits are unsigned; 16, 24 and 32 are signed; all are little-endian.

    Args:
        data: The bytes.
        size: Bytes of a sample.
    """
    if size == 1:
        return (np.frombuffer(data, np.uint8).astype(np.float64) - 128) / 128
    if size == 3:  # as the upper bytes of 32 bits
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        data, size = wide.tobytes(), 4
    return np.frombuffer(data, f"<i{size}").astype(np.float64) / 2 ** (8 * size - 1)


def resample(sound: Tensor, rate: int, new_rate: int) -> Tensor:
    """Resamples audio, [sample], to another number of samples per second.

    Each new sample is an average of the old ones around it, weighted by a sinc under a Hann window,
    which removes frequencies that are too high for the new rate.
    """
    if rate == new_rate:
        return sound
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise InputError(
            f"A sound cannot have {rate} samples a second; give its true rate, {LOWEST_RATE:,} to "
            f"{HIGHEST_RATE:,}."
        )
    shared = math.gcd(rate, new_rate)
    step, phases = rate // shared, new_rate // shared  # `phases` new samples for `step` old ones
    cutoff = ROLLOFF * min(1.0, phases / step)
    reach = math.ceil(REACH / cutoff)
    padded = F.pad(sound.float(), (reach, reach + 1))

    def kernel(phase: Tensor) -> Tensor:
        """Returns the weights of the old samples around each new one, [phase, old sample]."""
        between = (phase * step % phases).double()[:, None] / phases
        distance = (torch.arange(-reach, reach + 1, dtype=torch.float64) - between) * cutoff
        window = torch.cos(distance.clamp(-REACH, REACH) * math.pi / (2 * REACH)) ** 2
        return (torch.sinc(distance) * window * cutoff).float()

    block = max(1, BLOCK // (2 * reach + 1))  # new samples at a time
    table = kernel(torch.arange(phases)) if phases <= block else None
    parts = []
    count = math.ceil(len(sound) * phases / step)
    for first in range(0, count, block):
        new = torch.arange(first, min(first + block, count))
        old = (new * step // phases)[:, None] + torch.arange(2 * reach + 1)
        weights = kernel(new % phases) if table is None else table[new % phases]
        parts.append((padded[old] * weights).sum(-1))
    return torch.cat(parts) if parts else padded[:0]
