"""What speech recognition reads and writes: sounds as 16-bit samples, and the decoder's tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.record import Record, invalid
from glassformer.data.speech import audio_path
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.generate.listen import NO_TIMES, named, tokens_of
from glassformer.model import Model
from glassformer.signals.audio_features import AudioProcessor
from glassformer.spec import AudioFramesSpec
from glassformer.text.backends.whisper import TIMES, language_code
from glassformer.train.objectives.rows import RaggedColumn
from glassformer.train.objectives.text_inputs import text_of

SCALE = 2**15  # of 16-bit samples
TIME_STEP = 0.02  # seconds between two time tokens
UNSPACED = ("zh", "ja", "th", "lo", "my", "yue")  # a text in them begins without a space


class SoundInputs:
    """Reads sounds, stores them as bytes, and computes the encoder's inputs from these."""

    def __init__(self, model: Model) -> None:
        encoder = model.spec.encoder
        if encoder is None or model.spec.decoder is None or (
            not isinstance(encoder.embed, AudioFramesSpec)
        ):  # fmt: skip
            raise UnsupportedError(
                f"speech-recognition needs an encoder of sounds and a decoder, and "
                f"{model.architecture} lacks them; choose WhisperForConditionalGeneration."
            )
        assert isinstance(model.processor, AudioProcessor)
        self.processor = model.processor
        self.length = encoder.embed.position.length  # vectors of the encoder's output

    def read(self, record: Record) -> Tensor:
        """Returns the samples of a record's audio at the model's rate, [sample]."""
        path = audio_path(record)
        samples = self.processor.samples_of(path, None)
        if not len(samples):
            raise invalid(record, f"{path} has no sound in it")
        if not bool(torch.isfinite(samples).all()):
            raise invalid(record, f"{path} has samples that are not finite")
        return samples

    def spectrograms(self, audio: RaggedColumn) -> Tensor:
        """Returns the log-mel spectrograms of stored sounds, [row, band, frame]."""
        rows = np.zeros((len(audio.lengths), self.processor.samples), np.float32)
        for row, samples in zip(rows, self.samples(audio), strict=True):
            row[: len(samples)] = samples[: len(row)]
        return self.processor.spectrogram(torch.from_numpy(rows))

    def samples(self, audio: RaggedColumn) -> list[NDArray[np.float32]]:
        """Returns the samples between -1 and 1 of stored sounds."""
        ends = np.cumsum(audio.lengths)[:-1]
        sounds = np.split(audio.values, ends)
        return [sound.view(np.int16).astype(np.float32) / np.float32(SCALE) for sound in sounds]

    def frames(self, audio: RaggedColumn) -> NDArray[np.int64]:
        """Returns the number of frames of stored sounds, without the padding."""
        samples = np.minimum(audio.lengths // 2, self.processor.samples)
        found: NDArray[np.int64] = -(-samples // self.processor.hop)
        return found

    def vectors(self, audio: RaggedColumn) -> NDArray[np.int64]:
        """Returns the number of the encoder's vectors that belong to stored sounds."""
        found: NDArray[np.int64] = np.minimum((self.frames(audio) + 1) // 2, self.length)
        return found


def stored(samples: Tensor) -> NDArray[np.uint8]:
    """Returns samples between -1 and 1 as the bytes of 16-bit numbers."""
    numbers = (samples.numpy() * SCALE).round().clip(-SCALE, SCALE - 1).astype(np.int16)
    return numbers.view(np.uint8)


class SpeechTargets:
    """The tokens that the decoder writes: control tokens, the text, with or without times, the end.

    Attributes:
        start: The token that the decoder starts from.
        end: The token that ends a text.
        first_time: The token of the time 0; None if no text is learned with times.
    """

    def __init__(self, model: Model, language: str | None, timestamps: bool) -> None:
        if model.tokenizer is None:
            raise ConfigError("The model has no tokenizer; name one in the recipe's [tokenizer].")
        assert model.spec.decoder is not None
        self.tokenizer = model.tokenizer
        saved: Mapping[str, Any] = model.generation_config or model.config
        self.languages, control = tokens_of(model, self.tokenizer, saved)
        special = model.spec.tokens
        start, end = special.start, self.tokenizer.special.get("eos", special.eos)
        if start is None or end is None:
            raise ConfigError(
                "The model's config has no decoder_start_token_id or eos_token_id, with which a "
                "transcript begins and ends."
            )
        self.start, self.end = start, end
        no_times = control.get(NO_TIMES)
        self.first_time = None if no_times is None or not timestamps else no_times + 1
        if timestamps and self.first_time is None:
            raise ConfigError(
                f"objective.timestamps needs a model with the token {NO_TIMES} and time tokens "
                f"behind it, and {model.architecture} has none."
            )
        self.task = [control["<|transcribe|>"]] if self.languages else []
        self.no_times = [] if no_times is None else [no_times]
        self.language = language
        if language is not None and self.languages:
            named(language, self.languages)  # an unknown one is an error at once

    def prefix_length(self, *, times: bool) -> int:
        """Returns the number of control tokens before the text, besides the start token."""
        return bool(self.languages) + len(self.task) + (0 if times else len(self.no_times))

    def of(self, record: Record, seconds: float, *, times: bool) -> list[int]:
        """Returns the tokens behind the start token.

        Args:
            record: A record with `text`, and for times perhaps its `segments`.
            seconds: The length of its sound.
            times: Whether the times of the segments are written.
        """
        language = self._language(record)
        before = [] if language is None else [named(language, self.languages)]
        before += self.task if times else [*self.task, *self.no_times]
        tokens: list[int] = []
        whole = [(text_of(record), 0.0, seconds)]
        for text, start, end in (self._segments(record, seconds) or whole) if times else whole:
            spaced = text.strip() if language in UNSPACED else f" {text.strip()}"
            ids = self.tokenizer.ids(spaced)
            tokens += [self._time(start), *ids, self._time(end)] if times else ids
        return [*before, *tokens, self.end]

    def text(self, tokens: Sequence[int]) -> str:
        """Returns the text of written tokens, without times."""
        first = self.first_time
        spoken = [token for token in tokens if first is None or token < first]
        return self.tokenizer.decode(spoken).strip()

    def at_speeds(self, tokens: RaggedColumn, speeds: NDArray[np.float64]) -> RaggedColumn:
        """Returns the tokens of sounds that are played at other speeds, at which times change."""
        if self.first_time is None:
            return tokens
        values, first = tokens.values, self.first_time
        passed = np.round((values - first) / np.repeat(speeds, tokens.lengths)) + first
        is_time = (values >= first) & (values < first + len(TIMES))
        return tokens._replace(values=np.where(is_time, passed, values).astype(values.dtype))

    def _time(self, seconds: float) -> int:
        assert self.first_time is not None
        return self.first_time + round(seconds / TIME_STEP)

    def _language(self, record: Record) -> str | None:
        """Returns the spoken language of a record; None for a model of one language."""
        if not self.languages:
            return None
        found = record.get("language") or self.language
        if not found:
            raise invalid(
                record, "no language is given", "a column language, or objective.language"
            )
        return language_code(str(found).partition("-")[0])

    def _segments(self, record: Record, seconds: float) -> list[tuple[str, float, float]]:
        """Returns the segments that a record names: texts, and when each begins and ends."""
        segments = record.get("segments") or ()
        found: list[tuple[str, float, float]] = []
        before = 0.0
        listed: Sequence[Any] = segments if isinstance(segments, list | tuple) else [segments]
        for one in listed:
            try:
                text, start, end = str(one["text"]), float(one["start"]), float(one["end"])
            except (TypeError, KeyError, ValueError):
                raise invalid(
                    record, f"the segment {one!r:.40} is not an object with text, start and end"
                ) from None
            if not before <= start <= end <= seconds + TIME_STEP or not text.strip():
                raise invalid(
                    record,
                    f"the segment from {start} to {end} s is empty, out of order, or ends after "
                    f"the sound ({seconds:.2f} s)",
                )
            found.append((text, start, end))
            before = end
        return found
