"""The options of `transcribe`, with the names of OpenAI's program."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import typer

from glassformer.cli.shared_options import COMPUTED

SPEECH, DECODING, AUDIO, SUBTITLES = "Speech", "Decoding", "Audio", "Subtitles"
THRESHOLDS = "Thresholds"


def _option(help: str, panel: str, *names: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel)


@dataclass(frozen=True)
class SpeechOptions:
    """Keyword arguments of `tasks.transcribe.transcribe`."""

    language: Annotated[
        str | None,
        _option("The spoken language, as de or german; by default it is detected.", SPEECH),
    ] = None
    task: Annotated[
        Literal["transcribe", "translate"],
        _option("Transcribe, or translate to English.", SPEECH),
    ] = "transcribe"
    initial_prompt: Annotated[
        str | None,
        _option("Text before the recording: names, spelling, style.", SPEECH),
    ] = None
    hotwords: Annotated[
        str | None, _option("Words to expect in every part of the recording.", SPEECH)
    ] = None
    word_timestamps: Annotated[
        bool, _option("Compute the times of words.", SPEECH, "--word-timestamps")
    ] = False
    without_timestamps: Annotated[
        bool, _option("Generate no times of segments.", SPEECH, "--without-timestamps")
    ] = False
    vad: Annotated[
        bool, _option("Leave out what has no voice; else all is transcribed.", AUDIO)
    ] = True
    channels: Annotated[
        Literal["mix", "separate"],
        _option("Transcribe the mean of the channels, or each of them.", AUDIO),
    ] = "mix"
    offset: Annotated[float, _option("Seconds of the recording to skip.", AUDIO)] = 0.0
    duration: Annotated[float | None, _option("Seconds of the recording to read.", AUDIO)] = None
    pad: Annotated[
        bool,
        _option("Pad short recordings to 30 s; without it they take less time.", AUDIO),
    ] = True
    beam_size: Annotated[int, _option("Number of beams; 1 is greedy search.", DECODING)] = 5
    best_of: Annotated[int, _option("Number of samples at temperatures above 0.", DECODING)] = 5
    length_penalty: Annotated[float, _option("Above 1 favors long texts.", DECODING)] = 1.0
    max_new_tokens: Annotated[
        int | None,
        _option("Maximum number of tokens of 30 s; by default half of the context.", DECODING),
    ] = None
    temperature: Annotated[
        float | None,
        _option("One temperature; by default 0, and up to 1 where a text fails.", DECODING),
    ] = None
    condition_on_previous_text: Annotated[
        bool,
        _option(
            "Use the text before a part as its prompt.",
            DECODING,
            "--condition-on-previous-text/--no-condition-on-previous-text",
        ),
    ] = True
    suppress_tokens: Annotated[
        str | None,
        _option("Token ids never to generate, as 1,2,7; by default the model's.", DECODING),
    ] = None
    batch_size: Annotated[
        int, _option("Parts to decode together; above 1, without the text before.", COMPUTED)
    ] = 1
    seed: Annotated[int, _option("Seed of the samples.", DECODING)] = 0
    compression_ratio_threshold: Annotated[
        float, _option("Texts that repeat more are decoded again.", THRESHOLDS)
    ] = 2.4
    logprob_threshold: Annotated[
        float, _option("Texts of a lower mean log-probability are decoded again.", THRESHOLDS)
    ] = -1.0
    no_speech_threshold: Annotated[
        float,
        _option("Improbable texts above this probability of no speech are silence.", THRESHOLDS),
    ] = 0.6
    hallucination_silence_threshold: Annotated[
        float | None,
        _option("With word times: drop improbable text in longer silence.", THRESHOLDS),
    ] = None

    def given(self) -> dict[str, Any]:
        """Returns the keyword arguments."""
        from glassformer.errors import ConfigError

        options = asdict(self)
        if self.temperature is None:
            del options["temperature"]
        if self.suppress_tokens is not None:
            try:
                ids = tuple(int(word) for word in self.suppress_tokens.split(",") if word.strip())
            except ValueError:
                raise ConfigError(
                    f"--suppress-tokens is a list such as 1,2,7, not {self.suppress_tokens!r}."
                ) from None
            options["suppress_tokens"] = None if ids == (-1,) else ids
        return options


@dataclass(frozen=True)
class SubtitleOptions:
    """The layout of subtitles."""

    max_line_width: Annotated[
        int | None, _option("Most characters of a line; with --word-timestamps.", SUBTITLES)
    ] = None
    max_line_count: Annotated[
        int | None, _option("Most lines of a subtitle; with --word-timestamps.", SUBTITLES)
    ] = None
    highlight_words: Annotated[
        bool,
        _option("Underline each word; with --word-timestamps.", SUBTITLES, "--highlight-words"),
    ] = False

    @property
    def layout(self) -> dict[str, Any]:
        """The keyword arguments of `TranscriptFormat`."""
        return asdict(self)

    @property
    def used(self) -> bool:
        """Whether an option is given."""
        return self != SubtitleOptions()
