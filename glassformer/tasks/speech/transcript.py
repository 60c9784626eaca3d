"""The result of speech recognition: a transcript of segments and words with their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class SpokenWord:
    """A word with its times in seconds, and the mean probability of its tokens."""

    text: str
    start: float
    end: float
    probability: float

    def later(self, seconds: float) -> SpokenWord:
        """Returns the word with later times.

        Args:
            seconds: Seconds to add.
        """
        if not seconds:
            return self
        start, end = (round(time + seconds, 3) for time in (self.start, self.end))
        return replace(self, start=start, end=end)

    def record(self) -> dict[str, Any]:
        """Returns the word as a dict with OpenAI's names."""
        return {
            "word": self.text,
            "start": round(self.start, 3),
            "end": round(self.end, 3),
            "probability": round(self.probability, 4),
        }


@dataclass(frozen=True)
class Segment:
    """A piece of the transcript, usually a sentence or a part of one.

    Attributes:
        id: Its number, from 0.
        start: Its start in seconds.
        end: Its end in seconds.
        text: Its text, with the space before it if the language has one.
        tokens: Its token ids, with timestamps.
        temperature: The temperature of sampling; 0 for greedy or beam search.
        avg_logprob: The mean log-probability of the tokens of its window.
        compression_ratio: How far the text of its window can be compressed; high if it repeats.
        no_speech_prob: The probability that its window has no speech.
        words: Its words, if word timestamps were asked for.
        channel: The channel that was transcribed; None for the mean of all.
    """

    id: int
    start: float
    end: float
    text: str
    tokens: tuple[int, ...]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: tuple[SpokenWord, ...] | None = None
    channel: int | None = None

    def record(self) -> dict[str, Any]:
        """Returns the segment as a dict with OpenAI's names."""
        record: dict[str, Any] = {
            "id": self.id,
            "start": round(self.start, 3),
            "end": round(self.end, 3),
            "text": self.text,
            "tokens": list(self.tokens),
            "temperature": self.temperature,
            "avg_logprob": round(self.avg_logprob, 6),
            "compression_ratio": round(self.compression_ratio, 6),
            "no_speech_prob": round(self.no_speech_prob, 6),
        }
        if self.words is not None:
            record["words"] = [word.record() for word in self.words]
        if self.channel is not None:
            record["channel"] = self.channel
        return record


@dataclass(frozen=True)
class Transcript:
    """What was said in a recording.

    Attributes:
        segments: Its segments in the order of time.
        language: The code of the language; None if the model knows one language only and does not
            say which.
        language_probability: The probability of the language if it was detected, else 1.
        duration: The seconds of audio that were read.
        padded: Whether every window was padded to the length that the model was trained on. If
            not, the text may differ from that of padded windows.
    """

    segments: tuple[Segment, ...]
    language: str | None
    language_probability: float
    duration: float
    padded: bool = True

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(segment.text for segment in self.segments).strip()

    @property
    def words(self) -> Iterator[SpokenWord]:
        """The words of all segments."""
        return (word for segment in self.segments for word in segment.words or ())

    def __str__(self) -> str:
        return self.text

    def record(self) -> dict[str, Any]:
        """Returns the transcript as a dict for JSON."""
        return {
            "text": self.text,
            "language": self.language,
            "language_probability": round(self.language_probability, 6),
            "duration": round(self.duration, 3),
            "padded": self.padded,
            "segments": [segment.record() for segment in self.segments],
        }


def joined_channels(transcripts: list[Transcript]) -> Transcript:
    """Returns the transcript of several channels, whose segments are in the order of time."""
    segments = sorted(
        (segment for one in transcripts for segment in one.segments),
        key=lambda segment: (segment.start, segment.channel or 0),
    )
    numbered = tuple(replace(segment, id=number) for number, segment in enumerate(segments))
    best = max(transcripts, key=lambda one: (len(one.text), one.language_probability))
    return replace(best, segments=numbered, duration=max(one.duration for one in transcripts))
