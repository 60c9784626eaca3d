"""Transcribes speech: text with times from audio of any length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import numpy as np
from torch import Tensor

from glassformer.errors import ConfigError, InputError, UnsupportedError
from glassformer.signals.audio_features import AudioProcessor
from glassformer.signals.audio_stream import AudioStream, open_audio
from glassformer.tasks.model_protocol import TaskModel
from glassformer.tasks.registry import task
from glassformer.tasks.speech.audio_feed import AudioFeed, limited, make_gate
from glassformer.tasks.speech.decoding import WindowDecoder
from glassformer.tasks.speech.options import TranscribeOptions, TranscriberOptions
from glassformer.tasks.speech.special_tokens import SpeechTokens, listens
from glassformer.tasks.speech.transcript import Transcript, joined_channels
from glassformer.tasks.speech.transcription import Engine, Transcription
from glassformer.tasks.transcribe_training import TRAINING

Recording = str | Path | np.ndarray | Tensor | Sequence[float]


@task("transcribe", head="lm", objective="speech-recognition", fits=listens, training=TRAINING)
class Transcriber:
    """Transcribes recordings with a model and options.

    Args:
        model: A speech recognition model, such as Whisper.
        **options: See `TranscribeOptions`.

    >>> for channel in Transcriber(model, word_timestamps=True).start("talk.wav"):
    ...     for segment in channel: print(segment.start, segment.text)
    """

    def __init__(self, model: TaskModel, **options: Unpack[TranscriberOptions]) -> None:
        if not listens(model):
            raise UnsupportedError(
                f"transcribe needs a model that writes about sound, such as Whisper, and "
                f"{model.architecture} is none."
            )
        processor = getattr(model, "processor", None)
        assert isinstance(processor, AudioProcessor)
        try:
            chosen = TranscribeOptions(**options)
        except TypeError as error:
            name = str(error).rpartition("'")[0].rpartition("'")[2]
            raise ConfigError(f"There is no option {name!r} of transcribe.") from None
        tokens = SpeechTokens(model)
        tokens.language(chosen.language)  # an unknown language is an error before any work
        decoder = WindowDecoder(model, tokens, chosen)
        self.engine = Engine(decoder, tokens, processor, chosen)

    def __call__(self, sound: Recording, rate: int | None = None) -> Transcript:
        """Returns the transcript of a recording.

        Args:
            sound: See `transcribe`.
            rate: The samples per second of an array.
        """
        transcripts = []
        for transcription in self.start(sound, rate):
            for _ in transcription:
                pass
            transcripts.append(transcription.transcript())
        return transcripts[0] if len(transcripts) == 1 else joined_channels(transcripts)

    def start(self, sound: Recording, rate: int | None = None) -> Iterator[Transcription]:
        """Yields a transcription that iterates over its segments; one for each separate channel.

        Args:
            sound: See `transcribe`.
            rate: The samples per second of an array.
        """
        options = self.engine.options
        if options.channels == "separate" and isinstance(sound, str) and sound == "-":
            raise InputError(
                "Standard input is read once, and separate channels are read one after the other; "
                "name a file."
            )
        stream = open_audio(sound, rate)
        separate = options.channels == "separate" and stream.channels > 1
        for channel in range(stream.channels) if separate else (None,):
            yield self._start(stream if not channel else open_audio(sound, rate), channel)

    def _start(self, stream: AudioStream, channel: int | None) -> Transcription:
        options, processor = self.engine.options, self.engine.processor
        blocks = stream.mono(processor.rate, channel)
        if options.offset or options.duration is not None:
            blocks = limited(blocks, processor.rate, options.offset, options.duration)
        feed = AudioFeed(blocks, processor, make_gate() if options.vad else None)
        return Transcription(self.engine, feed, options.offset, channel, stream.seconds)


def transcribe(
    model: TaskModel,
    sound: Recording,
    rate: int | None = None,
    **options: Unpack[TranscriberOptions],
) -> Transcript:
    """Transcribes a recording.

    Args:
        model: A speech recognition model, such as Whisper.
        sound: The path of a file (PCM .wav; with `pip install 'glassformer[audio]'` also flac,
            mp3, ogg, m4a, mp4 and others), "-" for standard input, or samples as an array of
            [sample] or [channel, sample].
        rate: The samples per second of an array.
        **options: See `tasks.speech.options.TranscribeOptions`.

    Returns:
        The transcript, with segments, their times, and words if `word_timestamps` is set.

    >>> whisper.transcribe("talk.wav", word_timestamps=True).text
    """
    return Transcriber(model, **options)(sound, rate)
