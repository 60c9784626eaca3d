"""The options of speech recognition, with the names of OpenAI's program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from glassformer.errors import ConfigError
from glassformer.text.backends.whisper import TASKS

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
Channels = Literal["mix", "separate"]


class TranscriberOptions(TypedDict, total=False):
    """The keyword arguments of `transcribe`; see `TranscribeOptions`."""

    language: str | None
    task: Literal["transcribe", "translate"]
    temperature: float | tuple[float, ...]
    beam_size: int
    best_of: int
    length_penalty: float
    max_new_tokens: int | None
    suppress_tokens: tuple[int, ...] | None
    initial_prompt: str | None
    hotwords: str | None
    condition_on_previous_text: bool
    compression_ratio_threshold: float
    logprob_threshold: float
    no_speech_threshold: float
    without_timestamps: bool
    max_initial_timestamp: float | None
    word_timestamps: bool
    hallucination_silence_threshold: float | None
    vad: bool
    batch_size: int
    pad: bool
    channels: Channels
    offset: float
    duration: float | None
    seed: int


@dataclass(frozen=True, kw_only=True)
class TranscribeOptions:
    """The options of `transcribe`.

    Attributes:
        language: The spoken language, "de" or "german"; None detects it.
        task: "transcribe", or "translate" to English.
        temperature: Temperatures that are tried one after the other; a number for one alone.
        beam_size: Number of beams at temperature 0; 1 is greedy search.
        best_of: Number of samples at other temperatures.
        length_penalty: Exponent of the length in the score of beams.
        max_new_tokens: Largest number of tokens of a window; None for half of the context.
        suppress_tokens: Tokens that are never generated; None for those of the model.
        initial_prompt: Text before the first window: names, style, spelling.
        hotwords: Words in the prompt of every window.
        condition_on_previous_text: Whether the prompt of a window is the text before it.
        compression_ratio_threshold: Texts above it are decoded again, as repetitive.
        logprob_threshold: Texts below it are decoded again, as improbable.
        no_speech_threshold: Improbable texts of windows above it count as silence.
        without_timestamps: Generates no times; each window is then one segment.
        max_initial_timestamp: Latest start of the first segment in its window, in seconds; None
            for that of generation_config.json, or 1.
        word_timestamps: Whether the times of words are computed.
        hallucination_silence_threshold: With word timestamps, silence of more than so many
            seconds around an improbable segment drops it; None keeps it.
        vad: Whether parts without a voice are left out.
        batch_size: Windows that are decoded together. Above 1, windows follow the voice activity
            and have no text before them as a prompt.
        pad: Whether the encoder reads windows padded to the model's 30 seconds. Without it, short
            windows take less time, and the text may differ.
        channels: "mix", or "separate" to transcribe each channel.
        offset: Seconds of audio to skip.
        duration: Seconds of audio to read; None for all.
        seed: Seed of the samples.
    """

    language: str | None = None
    task: Literal["transcribe", "translate"] = "transcribe"
    temperature: float | tuple[float, ...] = TEMPERATURES
    beam_size: int = 5
    best_of: int = 5
    length_penalty: float = 1.0
    max_new_tokens: int | None = None
    suppress_tokens: tuple[int, ...] | None = None
    initial_prompt: str | None = None
    hotwords: str | None = None
    condition_on_previous_text: bool = True
    compression_ratio_threshold: float = 2.4
    logprob_threshold: float = -1.0
    no_speech_threshold: float = 0.6
    without_timestamps: bool = False
    max_initial_timestamp: float | None = None
    word_timestamps: bool = False
    hallucination_silence_threshold: float | None = None
    vad: bool = True
    batch_size: int = 1
    pad: bool = True
    channels: Channels = "mix"
    offset: float = 0.0
    duration: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ConfigError(f"The task is one of {', '.join(TASKS)}, not {self.task!r}.")
        if self.channels not in ("mix", "separate"):
            raise ConfigError(f'channels is "mix" or "separate", not {self.channels!r}.')
        for name in ("beam_size", "best_of", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be 1 or more, not {getattr(self, name)}.")
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens must be 1 or more, not {self.max_new_tokens}.")
        if not self.temperatures or min(self.temperatures) < 0:
            raise ConfigError("temperature is a number from 0 on, or several.")
        if self.offset < 0 or (self.duration is not None and self.duration <= 0):
            raise ConfigError("offset and duration are seconds from 0 on.")
        if self.hallucination_silence_threshold is not None and not self.word_timestamps:
            raise ConfigError("hallucination_silence_threshold needs word_timestamps.")

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The temperatures in the order in which they are tried."""
        given = self.temperature
        return tuple(dict.fromkeys(given)) if isinstance(given, tuple | list) else (given,)
