"""Voice activity by energy: speech is louder than its surroundings, and its loudness varies.

Steady sounds, such as silence, noise, hum and held chords, never exceed their own floor. It needs
no weights; Silero's network (`silero.py`) also rejects music and noises that vary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

ABOVE_FLOOR = 0.9
"""How far speech exceeds the floor around it, as log10 of the power: 9 dB."""
AROUND = 150
"""Frames on either side among which the floor is found: 1.5 s."""
SMOOTH = 5
"""Frames over which the power is averaged."""
FLOOR_SHARE = 0.1
"""The floor is the power that this share of the frames does not exceed."""
QUIETEST = -5.0
"""Power below which nothing is heard, as log10 for samples between -1 and 1."""
BAND = (0.1, 0.75)
"""The part of the mel bands that has speech: about 200 to 4,000 Hz."""


class EnergyGate:
    """Decides for each frame of a spectrogram whether somebody may be speaking.

    Decisions are delayed by `AROUND` frames, because they depend on what follows.
    """

    def __init__(self) -> None:
        self.power = torch.empty(0)  # of the frames around the next decision
        self.before = 0  # of these, how many are decided already

    def push(self, samples: Tensor, frames: Tensor) -> Tensor:
        """Returns the decisions that the frames, [band, frame], complete, [frame]."""
        low, high = (round(share * len(frames)) for share in BAND)
        power = (10.0 ** frames[low:high].double()).sum(0).float()
        self.power = torch.cat((self.power, power))
        return self._decide(len(self.power) - AROUND)

    def finish(self) -> Tensor:
        """Returns the decisions about the last frames."""
        return self._decide(len(self.power))

    def _decide(self, end: int) -> Tensor:
        if end <= self.before:
            return torch.empty(0, dtype=torch.bool)
        smooth = F.avg_pool1d(self.power[None], SMOOTH, 1, SMOOTH // 2, count_include_pad=False)[
            0
        ].clamp(min=1e-12)
        log = smooth.log10()
        window = min(2 * AROUND + 1, len(log))
        spread = log.unfold(0, window, 1)  # [place, frame around it]
        floors = spread.quantile(FLOOR_SHARE, dim=-1, interpolation="lower")
        place = (torch.arange(self.before, end) - AROUND).clamp(0, len(floors) - 1)
        floor = floors[place]
        speech = (log[self.before : end] > floor + ABOVE_FLOOR) & (
            log[self.before : end] > QUIETEST
        )
        kept = max(0, end - AROUND)
        self.power, self.before = self.power[kept:], end - kept
        return speech
