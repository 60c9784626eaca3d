"""Silero's voice activity network (github.com/snakers4/silero-vad), from the package's weights.

The package `silero-vad` (part of the extra `audio`) carries them as safetensors; it is not
imported.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from glassformer.errors import LoadError

WEIGHTS = "data/silero_vad_16k.safetensors"
WINDOW = 512
"""Samples of a decision."""
CONTEXT = 64
"""Samples before the window that the network also reads."""
HOP = 160
"""Samples of a frame of the spectrogram."""
ENTER, LEAVE = 0.5, 0.35
"""Probability at which speech begins, and below which it ends."""


class SileroNet(nn.Module):
    """The network: a spectrogram, four convolutions and an LSTM over the windows."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm = nn.LSTM(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(
        self, windows: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Returns the probability of speech in consecutive windows, [window, sample]."""
        x = self.stft_conv(F.pad(windows, (0, CONTEXT), "reflect")[:, None])
        x = (x[:, :129] ** 2 + x[:, 129:] ** 2).sqrt()
        for convolution in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = convolution(x).relu()
        h, state = self.lstm(x.mean(-1)[:, None], state)  # [window, 1, width]
        probability = self.final_conv(h.transpose(1, 2).relu()).sigmoid()
        return probability[:, 0, 0], state


def weights_path() -> Path | None:
    """Returns the file of the weights, if the package is installed."""
    package = find_spec("silero_vad")
    folders = package.submodule_search_locations if package is not None else None
    path = Path(folders[0]) / WEIGHTS if folders else None
    return path if path is not None and path.is_file() else None


@lru_cache(maxsize=1)
def load_silero(path: Path) -> SileroNet:
    """Loads the network."""
    net = SileroNet()
    state = load_file(path)
    renamed = {name.replace("lstm_cell", "lstm"): tensor for name, tensor in state.items()}
    renamed = {
        f"{name}_l0" if name.startswith("lstm.") else name: tensor
        for name, tensor in renamed.items()
    }
    try:
        net.load_state_dict(renamed)
    except RuntimeError as error:
        raise LoadError(f"{path} is not the network that is expected ({error}).") from None
    return net.eval()


class SileroGate:
    """Decides for each frame of a spectrogram whether somebody is speaking."""

    def __init__(self, net: SileroNet) -> None:
        self.net = net
        self.held = torch.zeros(CONTEXT)
        self.state: tuple[Tensor, Tensor] | None = None
        self.is_speech = False
        self.windows = self.decided = 0  # windows that are forgotten, frames that are decided
        self.speech: list[bool] = []  # of the windows of undecided frames

    @torch.inference_mode()
    def push(self, samples: Tensor, frames: Tensor) -> Tensor:
        """Returns the decisions that 16,000 samples a second complete, [frame]."""
        self.held = torch.cat((self.held, samples))
        count = (len(self.held) - CONTEXT) // WINDOW
        if count:
            windows = self.held.unfold(0, CONTEXT + WINDOW, WINDOW)[:count]
            probabilities, self.state = self.net(windows, self.state)
            self.held = self.held[count * WINDOW :]
            for probability in probabilities.tolist():
                self.is_speech = probability >= (LEAVE if self.is_speech else ENTER)
                self.speech.append(self.is_speech)
        return self._decide(self.windows * WINDOW + len(self.speech) * WINDOW)

    def finish(self) -> Tensor:
        """Returns the decisions about the last frames."""
        return self.push(torch.zeros(WINDOW), torch.empty(0))

    def _decide(self, end: int) -> Tensor:
        """Returns the decisions about the frames before a sample."""
        first, self.decided = self.decided, max(self.decided, end // HOP)
        places = torch.arange(first, self.decided) * HOP // WINDOW - self.windows
        found = torch.tensor([self.speech[place] for place in places.tolist()], dtype=torch.bool)
        old = self.decided * HOP // WINDOW - self.windows
        self.speech, self.windows = self.speech[old:], self.windows + old
        return found
