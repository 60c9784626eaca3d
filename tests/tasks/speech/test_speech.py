"""Parts of speech recognition beside transformers' implementation, or by their definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers.models.whisper.generation_whisper import (
    _dynamic_time_warping,
    _median_filter,
)
from whisper_models import voice

import glassformer as gf
from glassformer.signals.audio_features import AudioProcessor
from glassformer.tasks.speech.alignment_heads import HEADS
from glassformer.tasks.speech.audio_feed import AudioFeed, limited
from glassformer.tasks.speech.energy_gate import EnergyGate
from glassformer.tasks.speech.formats import FORMATS, TranscriptFormat, clock, line_of
from glassformer.tasks.speech.hallucination import is_anomaly, keep_before_hallucination
from glassformer.tasks.speech.seeking import split_window
from glassformer.tasks.speech.silero import SileroGate, load_silero, weights_path
from glassformer.tasks.speech.split_words import split_words
from glassformer.tasks.speech.transcript import Segment, SpokenWord, Transcript
from glassformer.tasks.speech.word_alignment import WordTiming, median_filter, warp
from glassformer.tasks.speech.word_times import TimedSegment, add_words, merge_punctuation


def test_paths_and_medians_equal_the_reference():
    random = np.random.default_rng(0)
    for shape in ((1, 5), (7, 3), (12, 40)):
        cost = random.standard_normal(shape).astype(np.float32)
        for ours, theirs in zip(warp(cost), _dynamic_time_warping(cost), strict=True):
            assert np.array_equal(ours, theirs)
    x = torch.randn(2, 4, 20, generator=torch.Generator().manual_seed(0))
    assert torch.equal(median_filter(x, 7), _median_filter(x[None], 7)[0])
    assert torch.equal(median_filter(x[..., :3], 7), x[..., :3])


def test_published_alignment_heads_fit_their_sizes():
    sizes = {4: (6, 20), 6: (8,), 12: (12,), 24: (16,), 32: (20,)}
    for (layers, width, _), heads in HEADS.items():
        count = width // 64
        assert count in sizes[layers]
        assert all(0 <= layer < layers and 0 <= head < count for layer, head in heads)


TIME = 100  # the first timestamp token


@pytest.mark.parametrize(
    ("tokens", "segments", "advance"),
    [
        ([100, 1, 105, 105, 2, 110, 110], [(0.0, 0.1), (0.1, 0.2)], 20),
        ([100, 1, 105, 105, 2, 110], [(0.0, 0.1), (0.1, 0.2)], 300),
        ([100, 1, 105, 105, 2, 3], [(0.0, 0.1)], 10),
        ([100, 1, 2, 120], [(0.0, 0.4)], 300),
        ([1, 2], [(0.0, 3.0)], 300),
    ],
)
def test_windows_are_split_at_pairs_of_timestamps(tokens, segments, advance):
    split = split_window(tokens, TIME, 300, 0.01)
    assert [(round(s.start, 3), round(s.end, 3)) for s in split.segments] == segments
    assert split.advance == advance
    whole = split_window(tokens, TIME, 300, 0.01, keep_rest=True)
    assert [token for s in whole.segments for token in s.tokens] == tokens
    assert whole.advance == 300


def test_words_are_split_at_spaces_or_characters():
    parts = {1: " Ever", 2: " tri", 3: "ed", 4: ".", 5: "\ufffd", 6: "\ufffd"}

    def decode(tokens):
        return "".join(parts[t] for t in tokens).replace("\ufffd\ufffd", "é")

    assert split_words([1, 2, 3, 4], "en", decode) == [
        (" Ever", (1,)), (" tried", (2, 3)), (".", (4,))
    ]  # fmt: skip
    assert split_words([1, 5, 6], "en", decode) == [(" Everé", (1, 5, 6))]
    assert split_words([2, 3], "ja", decode) == [(" tri", (2,)), ("ed", (3,))]


def timing(word: str, start: float, end: float) -> WordTiming:
    return WordTiming(word, (1,), start, end, 0.9)


def test_punctuation_belongs_to_its_word():
    timings = [timing(' "', 0, 1), timing("No", 1, 2), timing(",", 2, 3), timing(" he", 3, 4)]
    merge_punctuation(timings)
    assert [t.word for t in timings] == ["", ' "No,', "", " he"]
    assert timings[1].tokens == (1, 1, 1)


def test_long_first_words_are_shortened():
    timings = [timing(" A", 0, 5), *(timing(" b", 5 + i / 5, 5.2 + i / 5) for i in range(5))]
    segment = TimedSegment(0.0, 7.0, (), (1,) * 6)
    add_words([segment], timings, 0.0, -9.0)
    assert segment.words[0].start == pytest.approx(4.6) and segment.words[0].end == 5
    assert segment.start == segment.words[0].start and segment.end == segment.words[-1].end


def test_invented_words_in_silence_are_dropped():
    said = TimedSegment(0.5, 1.5, (), (), [SpokenWord(" yes", 0.5, 1.5, 0.9)] * 3)
    invented = TimedSegment(20.0, 20.1, (), (), [SpokenWord(" you", 20.0, 20.1, 0.01)])
    assert is_anomaly(invented) and not is_anomaly(said)
    segments = [said, invented]
    times = {"start": 0.0, "length": 30.0, "window": 30.0, "last_speech": 0.0, "frame": 0.01}
    seek = keep_before_hallucination(segments, 2.0, seek=3000, complete=True, end=60.0, **times)
    assert segments == [said] and seek == 2000


def gates():
    path = weights_path()
    return [EnergyGate()] if path is None else [EnergyGate(), SileroGate(load_silero(path))]


def spoken(sound: np.ndarray, gate) -> list[tuple[int, int]]:
    blocks = iter(torch.from_numpy(sound).float().split(7_000))
    feed = AudioFeed(blocks, AudioProcessor(), gate)
    feed.fill(10**9)
    assert len(feed.speech) == feed.mel.content == len(sound) // 160
    return feed._spoken()


def test_steady_sounds_are_no_speech():
    time = np.arange(10 * 16_000) / 16_000
    chord = sum(np.sin(2 * np.pi * f * time) for f in (261.63, 329.63, 392.0))
    noise = np.random.default_rng(0).standard_normal(len(time))
    for sound in (0 * time, 0.1 * noise, 0.3 * np.sin(2 * np.pi * 60 * time), 0.2 * chord):
        for gate in gates():
            assert spoken(sound, gate) == []


def test_the_energy_gate_finds_where_a_voice_begins_and_ends():
    quiet = 0.0005 * np.random.default_rng(0).standard_normal(6 * 16_000)
    sound = np.concatenate((quiet, voice(3), quiet, voice(2), quiet))
    (one, other) = spoken(sound, EnergyGate())
    assert one == pytest.approx((560, 940), abs=45)
    assert other == pytest.approx((1460, 1740), abs=45)


def test_a_feed_holds_little_and_skips_silence():
    quiet = np.zeros(16_000, np.float32)
    blocks = (torch.from_numpy(voice(1) if i == 200 else quiet) for i in range(1000))
    feed = AudioFeed(blocks, AudioProcessor(), EnergyGate())
    start, end = feed.next_window(0, 3000)
    assert start == pytest.approx(19_960, abs=60) and end - start < 260
    assert feed.next_window(end, 3000) is None
    assert feed.frames.shape[1] < 65_000 and feed.mel.content == 100_000


def test_parts_of_a_recording():
    blocks = torch.arange(100.0).split(7)
    assert torch.cat(list(limited(iter(blocks), 10, 1.5, 2.0))).tolist() == list(range(15, 35))
    assert list(limited(iter(blocks), 10, 20.0, None)) == []


WORDS = tuple(
    SpokenWord(text, start, start + 0.4, 0.9)
    for text, start in ((" Ever", 0.0), (" tried.", 0.5), (" Ever", 5.0), (" failed.", 5.5))
)
SEGMENT = Segment(0, 0.0, 5.9, " Ever tried. Ever failed.", (1, 2), 0.0, -0.3, 1.1, 0.01, WORDS)
TRANSCRIPT = Transcript((SEGMENT,), "en", 1.0, 6.0)


def test_formats():
    written = {name: TranscriptFormat(name).whole(TRANSCRIPT) for name in FORMATS}
    assert written["txt"] == "Ever tried. Ever failed.\n"
    times = "00:00:00,000 --> 00:00:05,900"
    assert written["srt"] == f"1\n{times}\nEver tried. Ever failed.\n\n"
    assert written["vtt"].startswith("WEBVTT\n\n00:00.000 --> 00:05.900\n")
    assert written["tsv"] == "start\tend\ttext\n0\t5900\tEver tried. Ever failed.\n"
    assert '"word": " tried."' in written["json"]
    assert line_of(SEGMENT) == "[00:00.000 --> 00:05.900] Ever tried. Ever failed."
    assert clock(3_661.5, True, ",") == "01:01:01,500"


def test_subtitles_have_lines_and_highlighted_words():
    srt = TranscriptFormat("srt", max_line_width=13, max_line_count=1).whole(TRANSCRIPT)
    assert srt.splitlines()[2::4] == ["Ever tried.", "Ever failed."]
    assert srt.splitlines()[1] == "00:00:00,000 --> 00:00:00,900"
    marked = TranscriptFormat("vtt", highlight_words=True).whole(TRANSCRIPT)
    assert "<u>Ever</u> tried." in marked and "Ever <u>tried.</u>" in marked
    plain = Segment(0, 0.0, 1.0, " a", (), 0.0, 0.0, 0.0, 0.0)
    with pytest.raises(gf.GlassformerError, match="set word_timestamps"):
        TranscriptFormat("srt", max_line_width=9).whole(Transcript((plain,), "en", 1.0, 1.0))
