"""Converts MIDI files to token ids and back.

A performance is encoded as in Oore et al. (2018), with the ids of Magenta's encoding: 128 events
that start a note, 128 that end one, 100 that advance the time by 10 ms to 1 s, 32 that set the
velocity of the next notes; then the special tokens. The library mido reads and writes the files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from glassformer.errors import DataError, InputError, UnsupportedError
from glassformer.storage.files import atomic_file

STEPS_PER_SECOND = 100
PITCHES, SHIFTS, VELOCITIES = 128, 100, 32
ON = 0
OFF = ON + PITCHES
SHIFT = OFF + PITCHES  # by one step; the following events by two, three, ...
VELOCITY = SHIFT + SHIFTS
EVENTS = VELOCITY + VELOCITIES
PAD, START, END = EVENTS, EVENTS + 1, EVENTS + 2
VOCABULARY = EVENTS + 3

DRUMS, PEDAL = 9, 64  # MIDI's channel (of 0 to 15) and controller
VELOCITY_BIN = 4  # MIDI has 127 velocities
LONGEST_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Note:
    """A note, with start and end in seconds."""

    start: float
    end: float
    pitch: int
    velocity: int

    def __post_init__(self) -> None:
        known = 0 <= self.pitch < PITCHES and 0 < self.velocity <= VELOCITIES * VELOCITY_BIN - 1
        if not known or not 0 <= self.start <= self.end:
            raise InputError(
                f"{self} is not a valid note: pitches are 0 to 127, velocities are 1 to 127, and "
                "times are at least 0."
            )


# --- notes and events --------------------------------------------------------------------------


def encode(notes: Iterable[Note], ends: bool = False) -> list[int]:
    """Encodes notes as ids; with `ends`, between the start and end tokens."""
    ordered = sorted(notes, key=lambda note: (note.start, note.pitch))
    changes: list[tuple[int, int, bool]] = []  # step, which note, whether it ends
    for i, note in enumerate(ordered):
        start = _step(note.start)
        changes += [(start, i, False), (max(_step(note.end), start + 1), i, True)]
    ids: list[int] = []
    now, velocity = 0, None
    for step, i, is_end in sorted(changes):
        while now < step:
            passed = min(step - now, SHIFTS)
            ids.append(SHIFT + passed - 1)
            now += passed
        note = ordered[i]
        struck = (note.velocity - 1) // VELOCITY_BIN
        if not is_end and struck != velocity:
            velocity = struck
            ids.append(VELOCITY + struck)
        ids.append((OFF if is_end else ON) + note.pitch)
    return [START, *ids, END] if ends else ids


def decode(ids: Iterable[int]) -> list[Note]:
    """Decodes ids to notes, up to the end token.

    A note that is not ended lasts until then. An end without a start, which a model may generate,
    is ignored.
    """
    notes: list[Note] = []
    sounding: dict[int, list[tuple[int, int]]] = {}  # pitch -> starts and velocities, oldest first
    now, velocity = 0, 64

    def close(pitch: int) -> None:
        start, struck = sounding[pitch].pop(0)
        if start < now:
            seconds = start / STEPS_PER_SECOND, now / STEPS_PER_SECOND
            notes.append(Note(*seconds, pitch, struck))

    for event in ids:
        if not 0 <= event < VOCABULARY:
            raise InputError(f"{event} is not a MIDI event; ids are 0 to {VOCABULARY - 1}.")
        if event == END:
            break
        if event < OFF:
            sounding.setdefault(event, []).append((now, velocity))
        elif event < SHIFT:
            if sounding.get(event - OFF):
                close(event - OFF)
        elif event < VELOCITY:
            now += event - SHIFT + 1
        elif event < EVENTS:
            velocity = (event - VELOCITY) * VELOCITY_BIN + 1
    for pitch, starts in sounding.items():
        for _ in tuple(starts):
            close(pitch)
    return sorted(notes, key=lambda note: (note.start, note.pitch))


def _step(seconds: float) -> int:
    return int(seconds * STEPS_PER_SECOND + 0.5)


# --- files -------------------------------------------------------------------------------------


@dataclass
class MidiPart:
    """The notes of one track on one channel."""

    notes: list[Note] = field(default_factory=list)
    pedal: list[tuple[float, bool]] = field(default_factory=list)  # time, and whether it goes down
    open: dict[int, list[tuple[int, float, int]]] = field(default_factory=dict)


def read_midi(path: str | Path) -> list[Note]:
    """Returns all notes of a file except drums, in seconds, with the sustain pedal applied."""
    file = _open(Path(path))
    clock = _Clock(file)
    parts: dict[tuple[int, int], MidiPart] = {}
    last = 0.0
    for number, track in enumerate(file.tracks):
        tick = 0
        for message in track:
            tick += message.time
            kind = message.type
            if kind not in ("note_on", "note_off", "control_change") or message.channel == DRUMS:
                continue
            part = parts.setdefault((number, message.channel), MidiPart())
            now = clock.seconds(tick)
            if now > LONGEST_SECONDS:
                raise DataError(
                    f"{path} lasts {now / 3600:,.0f} hours, and {LONGEST_SECONDS // 3600} are "
                    "read; the time of an event is wrong.",
                    path=path,
                )
            if kind == "control_change":
                if message.control == PEDAL:
                    part.pedal.append((now, message.value >= 64))
                    last = max(last, now)
            elif kind == "note_on" and message.velocity > 0:
                part.open.setdefault(message.note, []).append((tick, now, message.velocity))
            else:
                started = part.open.pop(message.note, [])
                ended = [Note(at, now, message.note, v) for t, at, v in started if t < tick]
                part.notes += ended
                if ended:
                    last = max(last, now)
                    part.open[message.note] = [note for note in started if note[0] == tick]
    notes = [note for part in parts.values() for note in sustained(part.notes, part.pedal, last)]
    return sorted(notes, key=lambda note: (note.start, note.pitch))


def sustained(
    notes: Sequence[Note], pedal: Sequence[tuple[float, bool]], last: float
) -> list[Note]:
    """Extends notes that the sustain pedal holds.

    While the pedal is down, a note lasts until the pedal is lifted, the key is struck again, or the
    performance ends (at `last`).
    """
    down, up, strike, release = range(4)  # the order of simultaneous events
    happens = [(time, down if pressed else up, -1) for time, pressed in pedal]
    for i, note in enumerate(notes):
        happens += [(note.start, strike, i), (note.end, release, i)]
    ends = [note.end for note in notes]
    sounding: list[int] = []
    pressed = False
    for time, what, i in sorted(happens):
        over: list[int] = []
        if what == down:
            pressed = True
        elif what == up:
            pressed = False
            over = [j for j in sounding if ends[j] < time]
        elif what == strike:
            if pressed:
                over = [j for j in sounding if notes[j].pitch == notes[i].pitch]
            sounding.append(i)
        elif not pressed and i in sounding:
            sounding.remove(i)
        for j in over:
            ends[j] = time
            sounding.remove(j)
    for j in sounding:
        ends[j] = last
    held = (replace(note, end=end) for note, end in zip(notes, ends, strict=True))
    return [note for note in held if note.end > note.start]


def write_midi(notes: Iterable[Note], path: str | Path) -> None:
    """Writes one piano track with one tick per millisecond."""
    mido = _mido()
    changes: list[tuple[int, int, int]] = []  # tick, velocity (0 ends), pitch: ends sort first
    for note in notes:
        start = round(note.start * 1000)
        end = max(round(note.end * 1000), start + 1)
        changes += [(start, note.velocity, note.pitch), (end, 0, note.pitch)]
    track = mido.MidiTrack([mido.MetaMessage("set_tempo", tempo=500_000)])
    now = 0
    for tick, velocity, pitch in sorted(changes):
        track.append(mido.Message("note_on", note=pitch, velocity=velocity, time=tick - now))
        now = tick
    file = mido.MidiFile(type=0, ticks_per_beat=500, tracks=[track])
    with atomic_file(Path(path)) as out:
        file.save(file=out)


class _Clock:
    """Converts ticks to seconds, with the tempo changes of all tracks."""

    def __init__(self, file: Any) -> None:
        self.per_beat = file.ticks_per_beat
        changes: dict[int, int] = {0: 500_000}  # microseconds per beat
        for track in file.tracks:
            tick = 0
            for message in track:
                tick += message.time
                if message.type == "set_tempo":
                    changes[tick] = message.tempo
        self.ticks = sorted(changes)
        self.tempos = [changes[tick] for tick in self.ticks]
        self.starts = [0.0]
        for i in range(1, len(self.ticks)):
            self.starts.append(self.starts[-1] + self._lasts(i - 1, self.ticks[i]))

    def seconds(self, tick: int) -> float:
        i = bisect_right(self.ticks, tick) - 1
        return self.starts[i] + self._lasts(i, tick)

    def _lasts(self, i: int, tick: int) -> float:
        return float((tick - self.ticks[i]) * self.tempos[i] / self.per_beat / 1e6)


def _open(path: Path) -> Any:
    mido = _mido()
    try:
        # not from the file itself, of which as much would be read as a damaged header says
        file = mido.MidiFile(file=BytesIO(path.read_bytes()), clip=True)
    except FileNotFoundError:
        raise DataError(f"There is no file {path}.", path=path) from None
    except Exception as error:  # mido raises many kinds of errors
        raise DataError(
            f"{path} is not a MIDI file that can be read ({error}).", path=path
        ) from None
    if file.type == 2 or file.ticks_per_beat <= 0:
        raise DataError(
            f"{path} holds independent pieces or counts video frames; save it as a MIDI file of "
            "type 0 or 1 that counts beats.",
            path=path,
        )
    return file


def _mido() -> Any:
    try:
        import mido  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise UnsupportedError(
            'MIDI files need the package mido: pip install "glassformer[music]".'
        ) from None
    return mido
