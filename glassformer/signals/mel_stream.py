"""Log-mel spectrograms of audio that comes block by block."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.signals.audio_features import DEPTH, FLOOR, AudioProcessor

SILENCE = math.log10(FLOOR)
"""The logarithm of the minimum power."""


class MelStream:
    """Computes frames as their samples arrive; see `AudioProcessor.spectrogram`.

    The frames are those of the whole audio followed by silence, before the scale of a window is
    applied (`scaled`).
    """

    def __init__(self, processor: AudioProcessor) -> None:
        self.processor = processor
        self.half = processor.window // 2
        self.held = torch.empty(0)
        self.begun = False
        self.samples = 0

    def push(self, samples: Tensor) -> Tensor:
        """Returns the new frames, [band, frame], that the samples complete."""
        self.samples += len(samples)
        self.held = torch.cat((self.held, samples))
        if not self.begun:
            if len(self.held) <= self.half:
                return self._nothing()
            before = self.held[1 : self.half + 1].flip(0)  # reflected, as by torch.stft
            self.held, self.begun = torch.cat((before, self.held)), True
        count = (len(self.held) - self.processor.window) // self.processor.hop + 1
        if count < 1:
            return self._nothing()
        used = (count - 1) * self.processor.hop + self.processor.window
        frames = self.processor.log_power(self.held[:used])
        self.held = self.held[count * self.processor.hop :]
        return frames

    def finish(self) -> Tensor:
        """Returns the frames that contain the last samples."""
        content = self.samples
        frames = self.push(torch.zeros(2 * self.processor.window))
        self.samples = content
        return frames

    @property
    def content(self) -> int:
        """The number of frames that the samples fill."""
        return self.samples // self.processor.hop

    def _nothing(self) -> Tensor:
        return torch.empty(self.processor.bands, 0)


def scaled(frames: Tensor, peak: float) -> Tensor:
    """Applies the model's scale to frames, which ends `DEPTH` below the peak of the audio."""
    return (frames.clamp(min=peak - DEPTH) + 4.0) / 4.0


def padded_window(frames: Tensor, length: int, peak: float, silence: bool) -> Tensor:
    """Returns scaled frames, [band, length].

    Args:
        frames: [band, frame].
        length: The number of frames of the window.
        peak: The largest value of the audio.
        silence: Whether silence follows the frames, or zeros, as transformers and OpenAI's program
            have it behind the last window of long audio.
    """
    more = (0, length - frames.shape[1])
    if silence:
        return scaled(F.pad(frames, more, value=SILENCE), peak)
    return F.pad(scaled(frames, peak), more)
