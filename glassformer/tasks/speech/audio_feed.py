"""The audio of one recording as it is transcribed: spectrogram frames and voice activity.

Only a part of the recording is held: what was transcribed is dropped, and at most ten minutes are
read ahead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from glassformer.signals.audio_features import AudioProcessor
from glassformer.signals.mel_stream import SILENCE, MelStream
from glassformer.tasks.speech.energy_gate import EnergyGate
from glassformer.tasks.speech.silero import SileroGate, load_silero, weights_path

AHEAD = 60_000
"""Frames that are read ahead. The scale of the spectrogram depends on the loudest frame, which is
known for recordings up to this length, as the reference has it."""
BLOCK = 3_000
"""Frames that are computed together."""
MERGE, PAD, SHORTEST = 200, 40, 10
"""Frames: pauses up to `MERGE` do not separate speech, which begins `PAD` earlier and ends `PAD`
later than its activity; activity of less than `SHORTEST` frames is none."""


class VoiceGate(Protocol):
    """Decides for each frame whether somebody is speaking."""

    def push(self, samples: Tensor, frames: Tensor) -> Tensor: ...

    def finish(self) -> Tensor: ...


def make_gate() -> VoiceGate:
    """Returns Silero's network if its package is installed, else the energy gate."""
    path = weights_path()
    return EnergyGate() if path is None else SileroGate(load_silero(path))


class AudioFeed:
    """Frames of a recording, [band, frame], and which of them have speech.

    Args:
        blocks: The samples at the processor's rate, each block [sample].
        processor: The processor of the model.
        gate: Voice activity; None if all frames count as speech.
    """

    def __init__(
        self, blocks: Iterator[Tensor], processor: AudioProcessor, gate: VoiceGate | None
    ) -> None:
        self.blocks, self.gate = blocks, gate
        self.mel = MelStream(processor)
        self.first = 0  # frame at which the held frames begin
        self.frames = torch.empty(processor.bands, 0)
        self.speech = torch.empty(0, dtype=torch.bool)
        self.peak = SILENCE
        self.ended = False
        self.hop = processor.hop

    def fill(self, frame: int) -> None:
        """Reads until a frame is known, or the end of the recording.

        Args:
            frame: Index of the frame.
        """
        while not self.ended and self.known <= frame:
            self._read()

    @property
    def known(self) -> int:
        """The number of frames whose speech is decided, counted from the beginning."""
        if self.ended:
            return self.mel.content
        held = self.frames.shape[1] if self.gate is None else len(self.speech)
        return self.first + held

    def window(self, start: int, end: int) -> Tensor:
        """Returns the frames from `start` to `end`; those behind the last sample too."""
        return self.frames[:, start - self.first : end - self.first]

    def drop(self, frame: int) -> None:
        """Forgets what nothing at or after this frame depends on."""
        count = min(max(0, frame - MERGE - PAD - self.first), self.frames.shape[1])
        self.frames, self.speech = self.frames[:, count:], self.speech[count:]
        self.first += count

    def next_window(self, frame: int, length: int) -> tuple[int, int] | None:
        """Returns the first window with speech at or after a frame; None if there is none.

        It begins with speech and has at most `length` frames. Reads ahead as far as needed.

        Args:
            frame: Index of the first frame.
            length: The largest number of frames.
        """
        while True:
            self.fill(frame + AHEAD)
            if self.gate is None:
                end = min(frame + length, self.known)
                return (frame, end) if frame < end else None
            for start, end in self._spoken():
                start = max(start, frame)
                if end > start and (self.ended or start + length <= self.known):
                    return start, self._last_speech(start + length)
                if end > start:
                    frame = start
                    break
            else:
                if self.ended:
                    return None
                frame = max(frame, self.known - MERGE - PAD)
            self.drop(frame)

    def _last_speech(self, limit: int) -> int:
        """Returns the end of the last speech that begins before a frame, or that frame."""
        return max(min(end, limit) for start, end in self._spoken() if start < limit)

    def quiet_end(self, start: int, end: int) -> int:
        """Returns the last frame before `end` in the window's second half without speech."""
        middle = (start + end) // 2
        speech = self.speech[middle - self.first : end - self.first]
        quiet = (~speech).nonzero()[:, 0]
        return middle + int(quiet[-1]) + 1 if self.gate is not None and len(quiet) else end

    def _spoken(self) -> list[tuple[int, int]]:
        """Returns the parts with speech among the held frames, by pauses."""
        padded = torch.cat((torch.zeros(1), self.speech.float(), torch.zeros(1)))
        change = padded.diff()
        starts = (change > 0).nonzero()[:, 0].tolist()
        ends = (change < 0).nonzero()[:, 0].tolist()
        joined: list[list[int]] = []  # start, end, active frames
        for start, end in zip(starts, ends, strict=True):
            if joined and start - joined[-1][1] <= MERGE:
                joined[-1][1], joined[-1][2] = end, joined[-1][2] + end - start
            else:
                joined.append([start, end, end - start])
        edge = len(self.speech)
        return [
            (
                self.first + max(0, start - PAD),
                self.first + min(end + PAD, edge),
            )
            for start, end, active in joined
            if active >= SHORTEST or (end == edge and not self.ended)
        ]

    def _read(self) -> None:
        samples: list[Tensor] = []
        count = 0
        for block in self.blocks:
            samples.append(block)
            count += len(block)
            if count >= BLOCK * self.hop:
                break
        whole = torch.cat(samples) if samples else torch.empty(0)
        self.ended = count < BLOCK * self.hop
        frames = self.mel.push(whole)
        self._add(frames, None if self.gate is None else self.gate.push(whole, frames))
        if self.ended:
            frames = self.mel.finish()
            last = None if self.gate is None else self.gate.push(whole[:0], frames)
            self._add(frames, last)
            if self.gate is not None:
                self._add(frames[:, :0], self.gate.finish())
                self.speech = self.speech[: self.mel.content - self.first]

    def _add(self, frames: Tensor, speech: Tensor | None) -> None:
        if frames.shape[1]:
            self.peak = max(self.peak, float(frames.amax()))
            self.frames = torch.cat((self.frames, frames), 1)
        if speech is not None:
            self.speech = torch.cat((self.speech, speech))


def limited(
    blocks: Iterator[Tensor], rate: int, offset: float, duration: float | None
) -> Iterator[Tensor]:
    """Yields the samples behind `offset` seconds, for `duration` seconds."""
    skip = round(offset * rate)
    left = math.inf if duration is None else round(duration * rate)
    for block in blocks:
        skipped = min(skip, len(block))
        skip -= skipped
        part = block[skipped:]
        part = part[: int(min(left, len(part)))]
        left -= len(part)
        if len(part):
            yield part
        if left <= 0:
            return
