"""MIDI events: files are read back equally, also by an independent program."""

from __future__ import annotations

import base64
import json
import random
import sys
from pathlib import Path

import mido
import pytest
import symusic

from glassformer import GlassformerError
from glassformer.signals.midi import (
    END,
    EVENTS,
    OFF,
    ON,
    PAD,
    SHIFT,
    START,
    VELOCITY,
    VOCABULARY,
    Note,
    decode,
    encode,
    read_midi,
    sustained,
    write_midi,
)


def performance(seed: int, count: int = 60) -> list[Note]:
    """Random notes on the grid of steps and velocities; no key is struck while it sounds."""
    rng = random.Random(seed)
    free = dict.fromkeys(range(128), 0)
    notes = []
    for _ in range(count):
        pitch = rng.randrange(128)
        start = free[pitch] + rng.choice((0, 1, 30, 99, 100, 101, 250))
        end = start + rng.choice((1, 7, 100, 101, 300))
        free[pitch] = end
        notes.append(Note(start / 100, end / 100, pitch, rng.randrange(32) * 4 + 1))
    return sorted(notes, key=lambda note: (note.start, note.pitch))


def same(ours: list[Note], expected: list[Note], within: float = 1e-6) -> bool:
    return len(ours) == len(expected) and all(
        (a.pitch, a.velocity) == (b.pitch, b.velocity)
        and abs(a.start - b.start) <= within
        and abs(a.end - b.end) <= within
        for a, b in zip(ours, expected, strict=True)
    )


def read_by_another(path) -> list[Note]:
    score = symusic.Score(str(path), ttype="second")
    notes = [
        Note(note.start, note.end, note.pitch, note.velocity)
        for track in score.tracks
        if not track.is_drum
        for note in track.notes
    ]
    return sorted(notes, key=lambda note: (round(note.start, 5), note.pitch))


def test_the_vocabulary_is_magentas_and_three_tokens():
    assert (ON, OFF, SHIFT, VELOCITY, EVENTS) == (0, 128, 256, 356, 388)
    assert (PAD, START, END, VOCABULARY) == (388, 389, 390, 391)


def test_events_by_hand():
    """The example of Oore et al.: a C major chord, held by the first key a second longer."""
    notes = [Note(0, 2.5, 60, 80), Note(0.5, 1.5, 64, 80), Note(0.5, 1.5, 67, 90)]
    bins = VELOCITY + (80 - 1) // 4, VELOCITY + (90 - 1) // 4
    assert encode(notes, ends=True) == [
        START, bins[0], ON + 60, SHIFT + 49, ON + 64, bins[1], ON + 67,
        SHIFT + 99, OFF + 64, OFF + 67, SHIFT + 99, OFF + 60, END,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_notes_to_events_to_file_and_back(seed, tmp_path):
    notes = performance(seed)
    ids = encode(notes)
    assert all(0 <= i < EVENTS for i in ids)
    assert same(decode(ids), notes)
    write_midi(decode(ids), tmp_path / "a.mid")
    assert same(read_midi(tmp_path / "a.mid"), notes)
    assert encode(read_midi(tmp_path / "a.mid")) == ids
    assert same(read_by_another(tmp_path / "a.mid"), notes, 1e-4)


def test_times_go_to_the_nearest_step_and_no_note_vanishes():
    (note,) = decode(encode([Note(0.1249, 0.1251, 60, 3)]))
    assert same([note], [Note(0.12, 0.13, 60, 1)])


@pytest.mark.parametrize("note", [(0, 1, 128, 64), (0, 1, 60, 0), (1, 0, 60, 64), (-1, 0, 60, 64)])
def test_a_note_that_cannot_be_played(note):
    with pytest.raises(GlassformerError, match="is not a valid note"):
        Note(*note)


def test_what_a_model_may_write():
    ids = [START, OFF + 9, ON + 60, SHIFT + 9, PAD, OFF + 60, ON + 61, OFF + 61, ON + 62, SHIFT]
    expected = [Note(0, 0.1, 60, 64), Note(0.1, 0.11, 62, 64)]
    assert same(decode([*ids, END, ON + 70, SHIFT]), expected)
    with pytest.raises(GlassformerError, match="391 is not a MIDI event"):
        decode([VOCABULARY])


# --- files as people have them -----------------------------------------------------------------


def save(path, *tracks, beat: int = 480, kind: int = 1):
    """Tracks of (tick, message) with absolute ticks."""
    file = mido.MidiFile(type=kind, ticks_per_beat=beat)
    for messages in tracks:
        track, now = mido.MidiTrack(), 0
        for tick, message in messages:
            track.append(message.copy(time=tick - now))
            now = tick
        file.tracks.append(track)
    file.save(str(path))
    return path


def on(pitch, velocity=64, channel=0):
    return mido.Message("note_on", note=pitch, velocity=velocity, channel=channel)


def off(pitch, channel=0):
    return mido.Message("note_off", note=pitch, velocity=0, channel=channel)


def pedal(value, channel=0):
    return mido.Message("control_change", control=64, value=value, channel=channel)


def tempo(beats_a_minute):
    return mido.MetaMessage("set_tempo", tempo=mido.bpm2tempo(beats_a_minute))


def test_tempo_changes_tracks_and_drums(tmp_path):
    path = save(
        tmp_path / "a.mid",
        [(0, tempo(60)), (480, tempo(120)), (1440, tempo(30))],
        [(0, on(60, 10)), (480, on(60, 0)), (960, on(62, 20)), (1920, off(62))],
        [(240, on(40, 30, channel=3)), (720, off(40, channel=3))],
        [(0, on(35, 99, channel=9)), (480, off(35, channel=9))],
    )
    expected = [Note(0, 1, 60, 10), Note(0.5, 1.25, 40, 30), Note(1.5, 4, 62, 20)]
    assert same(read_midi(path), expected)
    assert same(read_by_another(path), expected, 1e-4)


def test_the_pedal_belongs_to_its_channel(tmp_path):
    path = save(
        tmp_path / "a.mid",
        [(0, pedal(127)), (0, on(60)), (0, on(70, channel=1)), (480, off(60)),
         (480, off(70, channel=1)), (960, pedal(0))],
        kind=0,
    )  # fmt: skip
    assert same(read_midi(path), [Note(0, 1, 60, 64), Note(0, 0.5, 70, 64)])


MAGENTA = json.loads((Path(__file__).parent / "magenta.json").read_text())


@pytest.mark.parametrize("case", MAGENTA, ids=lambda _: "")
def test_the_events_are_those_that_magenta_makes(case, tmp_path):
    """With pedals, changes of tempo and two tracks (tools/magenta_events.py)."""
    (tmp_path / "a.mid").write_bytes(base64.b64decode(case["file"]))
    assert encode(read_midi(tmp_path / "a.mid")) == case["events"]


C, E = 60, 64


@pytest.mark.parametrize(
    ("pedal", "ends"),
    [
        ([], (1, 2, 4)),
        ([(0.5, True), (3.5, False)], (2.5, 3.5, 4)),  # C is struck again while E still sounds
        ([(0.5, True)], (2.5, 9, 9)),  # never lifted
        ([(1.5, True), (1.8, False)], (1, 2, 4)),  # after one note's end and before another's
        ([(0.5, True), (1.2, False), (1.9, True), (2.2, False)], (1.2, 2.2, 4)),
    ],
)
def test_the_pedal_holds_notes(pedal, ends):
    notes = [Note(0, 1, C, 64), Note(0, 2, E, 64), Note(2.5, 4, C, 64)]
    held = sustained(notes, pedal, last=9)
    assert [note.end for note in held] == list(ends)


def test_two_strikes_at_once_under_the_pedal_are_one():
    notes = [Note(1, 2, C, 64), Note(1, 3, C, 70)]
    assert sustained(notes, [(0, True)], last=5) == [Note(1, 5, C, 70)]


def test_a_key_that_is_struck_twice_ends_both_times(tmp_path):
    path = save(tmp_path / "a.mid", [(0, on(C, 10)), (480, on(C, 20)), (960, off(C))], kind=0)
    assert same(read_midi(path), [Note(0, 1, C, 10), Note(0.5, 1, C, 20)])


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "text.mid").write_text("do re mi")
    (tmp_path / "empty.mid").write_bytes(b"")
    save(tmp_path / "two.mid", [(0, on(C))], kind=2)
    whole = save(tmp_path / "cut.mid", [(0, on(C)), (9, off(C))]).read_bytes()
    (tmp_path / "cut.mid").write_bytes(whole[:-5])
    for name, said in (
        ("text.mid", "not a MIDI file"),
        ("empty.mid", "not a MIDI file"),
        ("cut.mid", "not a MIDI file"),
        ("two.mid", "independent pieces"),
        ("none.mid", "no file"),
    ):
        with pytest.raises(GlassformerError, match=said):
            read_midi(tmp_path / name)
    with pytest.raises(GlassformerError, match="cannot be written"):
        write_midi([], tmp_path / "no" / "folder.mid")


def test_without_mido_the_way_out_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mido", None)
    with pytest.raises(GlassformerError, match=r"glassformer\[music\]"):
        read_midi(tmp_path / "a.mid")
