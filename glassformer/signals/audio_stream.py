"""Audio of any file, stream or array, read block by block in constant memory.

PCM .wav files are read by the standard library, all other files by PyAV (the extra `audio`).
"""

from __future__ import annotations

import math
import sys
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import DataError, GlassformerError, InputError
from glassformer.signals.compressed_audio import open_compressed
from glassformer.signals.wav import BLOCK, HIGHEST_RATE, pcm_samples, resample

LOWEST_RATE = 4_000
"""Samples per second below which there is no speech to recognize."""
STREAMED = (0, 2**31 - 1, 2**32 - 1)
"""Lengths in headers of programs that write .wav files to a pipe."""
BYTES = 2**20  # of a block


@dataclass(frozen=True)
class AudioStream:
    """Audio that is read once.

    Attributes:
        name: What error messages call it.
        rate: Samples per second.
        channels: The number of channels.
        seconds: The duration; None if only its end tells.
        blocks: Samples between -1 and 1, each block [channel, sample].
    """

    name: str
    rate: int
    channels: int
    seconds: float | None
    blocks: Iterator[Tensor]

    def mono(self, rate: int, channel: int | None = None) -> Iterator[Tensor]:
        """Yields the mean of the channels, or one of them, at another rate, each [sample].

        Args:
            rate: The new samples per second.
            channel: The index of a channel; None for the mean of all.
        """
        return resampled(self._one_channel(channel), self.rate, rate)

    def _one_channel(self, channel: int | None) -> Iterator[Tensor]:
        before = 0
        for block in self.blocks:
            if not bool(block.isfinite().all()):
                first = before + int((~block.isfinite()).any(0).int().argmax())
                raise DataError(
                    f"{self.name} has a sample that is not a finite number at "
                    f"{first / self.rate:.2f} s; repair it or leave that part out."
                )
            before += block.shape[1]
            yield block.mean(0) if channel is None else block[channel]


def open_audio(sound: Any, rate: int | None = None) -> AudioStream:
    """Opens audio for reading.

    Args:
        sound: A path; "-" for standard input; or samples as an array of [sample] or
            [channel, sample], floats between -1 and 1 or whole numbers of PCM.
        rate: The samples per second of an array.
    """
    if isinstance(sound, str) and sound == "-":
        return _open_file(sys.stdin.buffer, "standard input", None)
    if not isinstance(sound, str | Path):
        return _of_array(sound, rate)
    path = Path(sound)
    try:
        file = path.open("rb")
        size = path.stat().st_size if path.is_file() else None
    except FileNotFoundError:
        raise DataError(f"The file {path} does not exist.", path=path) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).", path=path) from None
    if size == 0:
        file.close()
        raise DataError(f"{path} is empty; record or get it again.", path=path)
    try:
        return _open_file(file, str(path), size)
    except GlassformerError:
        file.close()
        raise


def _open_file(file: IO[bytes], name: str, size: int | None) -> AudioStream:
    head: bytes = file.peek(12)[:12]  # type: ignore[attr-defined]
    if not head:
        raise DataError(f"{name} is empty; record or get it again.")
    if (head[:4], head[8:12]) == (b"RIFF", b"WAVE"):
        found = _open_wav(file, name, size)
        if found is not None:
            return found
    return _checked(AudioStream(name, *open_compressed(file, name, size is not None)))


def _open_wav(file: IO[bytes], name: str, size: int | None) -> AudioStream | None:
    """Returns the audio of a PCM .wav file, or None if it is of another coding."""
    try:
        wav = wave.open(file, "rb")  # noqa: SIM115
    except (wave.Error, EOFError, RuntimeError) as error:
        if size is not None:
            file.seek(0)
            if "unknown format" in str(error):
                return None
        why = str(error) or "its header ends too early"
        raise DataError(f"{name} is a damaged .wav file ({why}); get it again.") from None
    channels, width, rate = wav.getnchannels(), wav.getsampwidth(), wav.getframerate()
    frame, claimed = channels * width, wav.getnframes()
    if width > 4 or channels < 1 or not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise DataError(_unreadable(name, rate, 8 * width))
    streamed = size is None or any(abs(claimed * frame - length) <= 4096 for length in STREAMED)
    if size is not None and not streamed and claimed * frame > size:
        raise DataError(
            f"{name} ends after {max(0, size - 44) / frame / rate:,.1f} s, and its header says "
            f"{claimed / rate:,.1f} s; get it again, or convert it with ffmpeg to repair it."
        )

    def blocks() -> Iterator[Tensor]:
        with file, wav:
            while data := wav.readframes(max(1, BYTES // frame)):
                whole = len(data) // frame * frame
                samples = pcm_samples(data[:whole], width).reshape(-1, channels).T
                yield torch.from_numpy(samples.astype(np.float32))

    return AudioStream(name, rate, channels, None if streamed else claimed / rate, blocks())


def _checked(stream: AudioStream) -> AudioStream:
    if not LOWEST_RATE <= stream.rate <= HIGHEST_RATE:
        raise DataError(_unreadable(stream.name, stream.rate, None))
    return stream


def _unreadable(name: str, rate: int, bits: int | None) -> str:
    of = "" if bits is None else f" of {bits} bits"
    return (
        f"{name} has {rate:,} samples a second{of}; sounds of {LOWEST_RATE:,} to {HIGHEST_RATE:,} "
        "a second and up to 32 bits are transcribed."
    )


def _of_array(samples: Any, rate: int | None) -> AudioStream:
    values = torch.as_tensor(samples)
    if rate is None:
        raise InputError("Samples say nothing about their rate; give rate, as rate=16000.")
    if values.ndim not in (1, 2) or values.is_complex() or values.dtype == torch.bool:
        raise InputError(
            f"A sound is an array of [sample] or [channel, sample], and this one is "
            f"{str(values.dtype).removeprefix('torch.')} of {list(values.shape)}."
        )
    if not values.is_floating_point():
        info = torch.iinfo(values.dtype)
        middle = 128 if info.min == 0 else 0
        values = (values.double() - middle) / 2 ** (info.bits - 1)
    rows = values.float().reshape(-1, values.shape[-1])
    if not rows.shape[0]:
        raise InputError("The sound has no channels.")
    seconds = rows.shape[1] / rate if rate > 0 else None
    blocks = iter(torch.split(rows, BYTES // 4, 1))
    return _checked(AudioStream("The sound", int(rate), len(rows), seconds, blocks))


def resampled(blocks: Iterator[Tensor], rate: int, new_rate: int) -> Iterator[Tensor]:
    """Yields blocks of [sample] at another rate; their sequence equals `resample` of the whole."""
    if rate == new_rate:
        yield from blocks
        return
    step = rate // math.gcd(rate, new_rate)
    around = math.ceil(20 * max(1, rate / new_rate) / step) * step  # more than the kernel's reach
    unit = max(1, BLOCK // step) * step
    held, first = torch.empty(0), True
    for block in blocks:
        held = torch.cat((held, block))
        while len(held) >= (0 if first else around) + unit + around:
            yield _middle(held, 0 if first else around, unit, around, rate, new_rate)
            held = held[(0 if first else around) + unit - around :]
            first = False
    before = 0 if first else around
    if len(held) > before:
        yield _middle(held, before, len(held) - before, 0, rate, new_rate)


def _middle(held: Tensor, before: int, unit: int, after: int, rate: int, new_rate: int) -> Tensor:
    """Resamples `unit` samples behind the first `before`, with their surroundings."""
    new = resample(held[: before + unit + after], rate, new_rate)
    start = before * new_rate // rate
    return new[start : start + math.ceil(unit * new_rate / rate)]
