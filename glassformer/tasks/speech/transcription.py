"""The transcription of one recording: windows are decoded one after the other, or in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import Tensor, stack

from glassformer.signals.audio_features import AudioProcessor
from glassformer.signals.mel_stream import padded_window
from glassformer.tasks.speech.alignment_heads import alignment_heads
from glassformer.tasks.speech.audio_feed import AudioFeed
from glassformer.tasks.speech.decoding import DecodedWindow, EncodedWindow, WindowDecoder
from glassformer.tasks.speech.hallucination import keep_before_hallucination
from glassformer.tasks.speech.options import TranscribeOptions
from glassformer.tasks.speech.seeking import SplitWindow, split_window
from glassformer.tasks.speech.special_tokens import SpeechTokens
from glassformer.tasks.speech.split_words import split_words
from glassformer.tasks.speech.transcript import Segment, Transcript
from glassformer.tasks.speech.word_alignment import align_words
from glassformer.tasks.speech.word_times import TimedSegment, add_words

HOT = 0.5
"""Texts of a higher temperature are no prompt of the next window."""


class Engine(NamedTuple):
    """What all transcriptions by a model share."""

    decoder: WindowDecoder
    tokens: SpeechTokens
    processor: AudioProcessor
    options: TranscribeOptions


class SpeechWindow(NamedTuple):
    """Frames `start` to `end` of the recording, as the encoder reads them."""

    start: int
    end: int
    features: Tensor  # [band, frame]


class Transcription:
    """Iterates over the segments of a recording as they are found.

    Attributes:
        language: The code of the language, once the first window is read.
        language_probability: Its probability.
        position: Seconds of the recording that are transcribed.
        total: Seconds of the recording; None if only its end tells.
    """

    def __init__(
        self,
        engine: Engine,
        feed: AudioFeed,
        offset: float,
        channel: int | None,
        total: float | None,
    ) -> None:
        self.engine, self.feed, self.total = engine, feed, total
        self.offset, self.channel = offset, channel
        options, tokens = engine.options, engine.tokens
        self.seconds = engine.processor.hop / engine.processor.rate  # of a frame
        self.length = engine.processor.samples // engine.processor.hop  # frames of a window
        self.token = tokens.language(options.language)
        self.language = None if self.token is None else tokens.code(self.token)
        if not tokens.languages:
            self.language = "en"
        self.language_probability = 1.0
        self.hot = tokens.encode(options.hotwords) if options.hotwords else []
        self.said = tokens.encode(options.initial_prompt) if options.initial_prompt else []
        self.last_speech = 0.0
        self.position = 0.0
        self.count = 0
        self.found: list[Segment] = []

    def __iter__(self) -> Iterator[Segment]:
        batched = self.engine.options.batch_size > 1
        windows = self._in_batches() if batched else self._one_by_one()
        for segment in windows:
            self.found.append(segment)
            yield segment

    def transcript(self) -> Transcript:
        """Returns the segments so far; after the iteration, those of the whole recording."""
        return Transcript(
            tuple(self.found),
            self.language,
            self.language_probability,
            self.feed.mel.samples / self.engine.processor.rate,
            self.engine.options.pad,
        )

    # --- windows -------------------------------------------------------------------------------

    def _one_by_one(self) -> Iterator[Segment]:
        seek = 0
        while (place := self.feed.next_window(seek, self.length)) is not None:
            window = self._window(*place)
            (encoded,) = self._encode([window])
            (result,) = self.engine.decoder.decode([encoded], [self._prompt(self.said)])
            seek = window.start + self._frames(window)
            if not self._is_silence(result):
                segments, seek = self._segments(window, encoded, result, seek)
                self._remember(segments, result)
                yield from self._finished(segments, result)
            self.position = min(seek, self.feed.known) * self.seconds
            self.feed.drop(seek)

    def _in_batches(self) -> Iterator[Segment]:
        seek = 0
        prompt = self.said
        while True:
            windows: list[SpeechWindow] = []
            while len(windows) < self.engine.options.batch_size:
                place = self.feed.next_window(seek, self.length)
                if place is None:
                    break
                start, end = place
                if end - start == self.length:
                    end = self.feed.quiet_end(start, end)
                windows.append(self._window(start, end))
                seek = end
            if not windows:
                return
            encoded = self._encode(windows)
            results = self.engine.decoder.decode(encoded, [self._prompt(prompt)] * len(windows))
            for window, source, result in zip(windows, encoded, results, strict=True):
                if not self._is_silence(result):
                    segments, _ = self._segments(window, source, result, window.end)
                    yield from self._finished(segments, result)
                self.position = window.end * self.seconds
            self.feed.drop(seek)

    def _window(self, start: int, end: int) -> SpeechWindow:
        feed, options = self.feed, self.engine.options
        whole = feed.ended and feed.mel.content <= self.length
        silence = whole or feed.gate is not None
        stop = end
        if whole and end == feed.mel.content:
            stop = min(feed.first + feed.frames.shape[1], start + self.length)
        frames = feed.window(start, stop)
        length = self.length if options.pad else frames.shape[1] + frames.shape[1] % 2
        return SpeechWindow(start, end, padded_window(frames, length, feed.peak, silence))

    def _frames(self, window: SpeechWindow) -> int:
        return window.end - window.start

    def _encode(self, windows: Sequence[SpeechWindow]) -> list[EncodedWindow]:
        decoder = self.engine.decoder
        if self.engine.options.pad:
            encoded = decoder.encode(stack([window.features for window in windows]))
        else:
            encoded = [decoder.encode(window.features[None])[0] for window in windows]
        if self.token is None and self.engine.tokens.languages:
            probabilities = decoder.languages(encoded[0])
            self.token = max(probabilities, key=lambda token: probabilities[token])
            self.language = self.engine.tokens.code(self.token)
            self.language_probability = probabilities[self.token]
        return encoded

    def _prompt(self, said: Sequence[int]) -> list[int]:
        options, tokens = self.engine.options, self.engine.tokens
        room = tokens.context // 2 - 1
        hot = self.hot[:room]
        before = said[-(room - len(hot)) :] if room > len(hot) else []
        times = not options.without_timestamps
        return tokens.prompt(self.token, options.task, times, [*hot, *before])

    # --- segments ------------------------------------------------------------------------------

    def _is_silence(self, result: DecodedWindow) -> bool:
        options = self.engine.options
        silent = result.no_speech_prob > options.no_speech_threshold
        return silent and result.avg_logprob <= options.logprob_threshold

    def _segments(
        self, window: SpeechWindow, encoded: EncodedWindow, result: DecodedWindow, seek: int
    ) -> tuple[list[TimedSegment], int]:
        """Returns the segments of a window, and the frame where the next one begins."""
        options, tokens = self.engine.options, self.engine.tokens
        frames, start = self._frames(window), window.start * self.seconds
        batched = options.batch_size > 1
        split = split_window(result.tokens, tokens.begin, frames, self.seconds, keep_rest=batched)
        segments = [
            TimedSegment(
                start + part.start,
                start + part.end,
                part.tokens,
                tuple(token for token in part.tokens if token < tokens.eos),
            )
            for part in split.segments
        ]
        if not batched:
            seek = window.start + split.advance
        if options.word_timestamps:
            seek = self._add_words(window, encoded, segments, split, seek)
        if not batched and seek <= window.start:  # a window is never decoded twice
            seek = window.end
        return segments, seek

    def _add_words(
        self,
        window: SpeechWindow,
        encoded: EncodedWindow,
        segments: list[TimedSegment],
        split: SplitWindow,
        seek: int,
    ) -> int:
        """Adds the words, and returns where the next window begins."""
        options, tokens, start = self.engine.options, self.engine.tokens, window.start
        text = [token for segment in segments for token in segment.text_tokens]
        decoder = self.engine.decoder
        timings = align_words(
            decoder.net,
            encoded.source,
            tokens.prompt(self.token, options.task, False, []),
            split_words(text, self.language, tokens.decode),
            tokens.eos,
            self._heads,
            self._frames(window) // 2,
        )
        add_words(segments, timings, start * self.seconds, self.last_speech)
        last = _last_word(segments)
        if not split.complete and last is not None and last > start * self.seconds:
            seek = round(last / self.seconds)
        if options.hallucination_silence_threshold is not None and options.batch_size == 1:
            seek = keep_before_hallucination(
                segments,
                options.hallucination_silence_threshold,
                seek=seek,
                complete=split.complete,
                start=start * self.seconds,
                length=self._frames(window) * self.seconds,
                window=self.length * self.seconds,
                last_speech=self.last_speech,
                end=self.feed.known * self.seconds,
                frame=self.seconds,
            )
            last = _last_word(segments)
        if last is not None:
            self.last_speech = last
        return seek

    @property
    def _heads(self) -> list[tuple[int, int]]:
        decoder = self.engine.decoder
        return alignment_heads(decoder.net, decoder.generator.saved)

    def _remember(self, segments: Sequence[TimedSegment], result: DecodedWindow) -> None:
        """Adds the text of a window to the prompt of the next one."""
        if not self.engine.options.condition_on_previous_text or result.temperature > HOT:
            self.said = []
            return
        added = [token for s in segments if self._has_text(s) for token in s.tokens]
        self.said = [*self.said, *added][-self.engine.tokens.context :]

    def _has_text(self, segment: TimedSegment) -> bool:
        text = self.engine.tokens.decode(segment.text_tokens)
        return segment.start != segment.end and bool(text.strip())

    def _finished(
        self, segments: Sequence[TimedSegment], result: DecodedWindow
    ) -> Iterator[Segment]:
        for segment in filter(self._has_text, segments):
            words = tuple(segment.words) if self.engine.options.word_timestamps else None
            yield Segment(
                id=self.count,
                start=segment.start + self.offset,
                end=segment.end + self.offset,
                text=self.engine.tokens.decode(segment.text_tokens),
                tokens=segment.tokens,
                temperature=result.temperature,
                avg_logprob=result.avg_logprob,
                compression_ratio=result.compression_ratio,
                no_speech_prob=result.no_speech_prob,
                words=words and tuple(word.later(self.offset) for word in words),
                channel=self.channel,
            )
            self.count += 1


def _last_word(segments: Sequence[TimedSegment]) -> float | None:
    """Returns the end of the last word, or of the last segment if there are no words."""
    ends = [segment.words[-1].end for segment in segments if segment.words]
    return ends[-1] if ends else (segments[-1].end if segments else None)
