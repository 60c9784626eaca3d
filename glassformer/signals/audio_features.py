"""Log-mel spectrograms of audio, computed as Whisper's feature extractor does.

The mel filters are written here, because torch has none, and torchaudio would be a dependency
for them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.errors import ConfigError, InputError, UnsupportedError
from glassformer.signals.wav import HIGHEST_RATE, read_wav, resample
from glassformer.spec import AudioFramesSpec
from glassformer.text.loading.files import READER_FILE, json_bytes, read_reader, write_files

KIND = "WhisperFeatureExtractor"
HIGHEST = 8000.0  # upper edge of the last band, in Hz
FLOOR, DEPTH = 1e-10, 8.0  # the minimum power, and the log10 range below a row's maximum
SILENT = {"dither": 0.0, "padding_value": 0.0, "padding_side": "right", "do_normalize": False}

MOST: dict[str, tuple[Any, int]] = {  # types and largest values of settings
    "bands": (int, 1024),
    "rate": (int, HIGHEST_RATE),
    "window": (int, 2**14),
    "hop": (int, 2**14),
    "seconds": ((int, float), 120),
}
MOST_PRODUCTS = 2**22  # frames times samples of a frame

Sound = str | Path | np.ndarray | Tensor | Sequence[float]


@dataclass(frozen=True, kw_only=True)
class AudioProcessor:
    """Converts audio to log-mel spectrograms of a fixed length.

    Shorter audio is padded with silence; audio longer than `seconds` is cut off.

    >>> processor = AudioProcessor()
    >>> model(input_features=processor("hello.wav"), decoder_input_ids=ids).logits
    """

    bands: int = 80
    rate: int = 16_000  # samples per second
    window: int = 400  # samples per frame
    hop: int = 160  # samples between frames
    seconds: float = 30

    @classmethod
    def of(cls, frames: AudioFramesSpec) -> Self:
        """Returns the usual processor for a model with these spectrograms."""
        return cls(
            bands=frames.num_mel_bins, seconds=2 * frames.position.length * cls.hop / cls.rate
        )

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        path, values = read_reader(Path(folder), "feature_extractor")
        kind = values.get("feature_extractor_type", KIND)
        if kind != KIND:
            raise UnsupportedError(
                f"{path} is for a {kind}; sound is read here by a {KIND}.",
                field="feature_extractor_type",
            )
        for key, known in SILENT.items():
            if values.get(key, known) != known:
                raise UnsupportedError(
                    f"{path} sets {key} to {values[key]!r}; it is read here with {known!r} alone.",
                    field=key,
                )
        keys = {"bands": "feature_size", "rate": "sampling_rate", "window": "n_fft",
                "hop": "hop_length", "seconds": "chunk_length"}  # fmt: skip
        found = {ours: values[theirs] for ours, theirs in keys.items() if theirs in values}
        for ours, number in found.items():
            kind, most = MOST[ours]
            if isinstance(number, bool) or not isinstance(number, kind) or not 0 < number <= most:
                raise ConfigError(
                    f"{path} has {keys[ours]} = {number!r}; it must be a number above 0, up to "
                    f"{most:,}."
                )
        made = cls(**found)
        if made.samples // made.hop * made.window > MOST_PRODUCTS:
            raise ConfigError(
                f"{path} has a hop_length of {made.hop} for {made.samples:,} samples: too "
                "many frames; get it again."
            )
        return made

    def save(self, folder: str | Path) -> None:
        write_files(Path(folder), {READER_FILE: json_bytes(self.settings)})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as written to preprocessor_config.json."""
        whole = int(self.seconds) if self.seconds == int(self.seconds) else self.seconds
        return {
            "feature_extractor_type": KIND,
            "feature_size": self.bands,
            "sampling_rate": self.rate,
            "n_fft": self.window,
            "hop_length": self.hop,
            "chunk_length": whole,
            "n_samples": self.samples,
            "nb_max_frames": self.samples // self.hop,
            "padding_side": "right",
            "padding_value": 0.0,
            "dither": 0.0,
            "return_attention_mask": False,
        }

    @property
    def samples(self) -> int:
        return round(self.seconds * self.rate)

    def __call__(self, *sounds: Sound, rate: int | None = None, pad: bool = True) -> Tensor:
        """Computes spectrograms.

        Args:
            sounds: Each a .wav file, or samples between -1 and 1, [sample].
            rate: The samples per second of arrays; None means the processor's rate.
            pad: Whether to pad short audio with silence. Without it, all must be equally long.

        Returns:
            Spectrograms, [sound, band, frame].
        """
        rows = [self.samples_of(sound, rate)[: self.samples] for sound in sounds]
        if pad:
            rows = [F.pad(row, (0, self.samples - len(row))) for row in rows]
        lengths = {len(row) for row in rows}
        if len(lengths) != 1:
            raise InputError(
                "Sounds of different lengths cannot form a batch without padding; set pad=True."
            )
        if min(lengths) <= self.window // 2:
            raise InputError(
                f"The sound has {min(lengths)} samples, which is less than a frame; set pad=True."
            )
        return self.spectrogram(torch.stack(rows))

    def samples_of(self, sound: Sound, rate: int | None) -> Tensor:
        if isinstance(sound, str | Path):
            samples, rate = read_wav(sound)
        else:
            samples = torch.as_tensor(sound)
        if samples.ndim != 1 or not samples.is_floating_point():
            raise InputError(
                f"A sound is samples between -1 and 1 in one row, and this one is {samples.dtype} "
                f"of {list(samples.shape)}; mix channels by their mean, divide whole numbers by "
                "their range."
            )
        return resample(samples.float(), self.rate if rate is None else rate, self.rate)

    def spectrogram(self, rows: Tensor) -> Tensor:
        """Returns the power in each band, on a log scale that ends `DEPTH` below a row's maximum.

        Maps [row, sample] to [row, band, frame].
        """
        log = self.log_power(F.pad(rows[:, None], 2 * (self.window // 2,), "reflect")[:, 0])
        log = log[..., :-1]
        log = torch.maximum(log, log.amax((-2, -1), keepdim=True) - DEPTH)
        return (log + 4.0) / 4.0

    def log_power(self, rows: Tensor) -> Tensor:
        """Returns the logarithm of the power in each band, [..., band, frame], of [..., sample].

        The first frame begins at the first sample.
        """
        window = torch.hann_window(self.window, device=rows.device)
        waves = torch.stft(
            rows, self.window, self.hop, window=window, center=False, return_complex=True
        )
        bands = mel_bands(self.bands, self.window, self.rate).to(rows.device)
        return (bands @ (waves.abs() ** 2).contiguous()).clamp(min=FLOOR).log10()


@lru_cache(maxsize=8)
def mel_bands(bands: int, window: int, rate: int) -> Tensor:
    """Returns the weight of each frequency in each band, [band, frequency].

    The bands are triangles of equal area, evenly spaced on Slaney's mel scale, which is linear up
    to 1,000 Hz and logarithmic above.
    """
    edges = hertz(np.linspace(0.0, mels(HIGHEST), bands + 2))
    frequencies = np.linspace(0.0, rate // 2, 1 + window // 2)
    rising = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    triangles *= 2.0 / (edges[2:, None] - edges[:-2, None])
    return torch.from_numpy(triangles).float()


KNEE, STEP = 15.0, np.log(6.4) / 27.0  # 15 mel are 1,000 Hz; from there 27 mel are a factor of 6.4


def mels(frequency: float) -> float:
    if frequency < 1000.0:
        return frequency * KNEE / 1000.0
    return float(KNEE + np.log(frequency / 1000.0) / STEP)


def hertz(mel: np.ndarray) -> np.ndarray:
    return np.where(mel < KNEE, mel * 1000.0 / KNEE, 1000.0 * np.exp(STEP * (mel - KNEE)))
