"""Makes tests/signals/magenta.json: MIDI files with pedals, tempo changes and two tracks, and the
events that Magenta's own library (PyPI: note-seq 0.0.5, with an environment of its own) makes.

    python tools/magenta_events.py
"""

from __future__ import annotations

import base64
import json
import random
import tempfile
from pathlib import Path

import mido
from note_seq import midi_io, sequences_lib
from note_seq.performance_encoder_decoder import PerformanceOneHotEncoding
from note_seq.performance_lib import Performance

BINS = 32
TARGET = Path(__file__).parent.parent / "tests" / "signals" / "magenta.json"


def random_file(seed: int) -> mido.MidiFile:
    rng = random.Random(seed)
    file = mido.MidiFile(type=1, ticks_per_beat=480)
    tempos = [(rng.randint(0, 2000), rng.randint(300_000, 900_000)) for _ in range(3)]
    file.tracks.append(
        mido.MidiTrack(mido.MetaMessage("set_tempo", tempo=t, time=wait) for wait, t in tempos)
    )
    for channel in range(2):
        events: list[tuple[int, int, mido.Message]] = []
        free: dict[int, int] = {}
        for _ in range(25):
            pitch = rng.randint(58, 66)
            start = free.get(pitch, 0) + rng.randint(0, 900)
            end = free[pitch] = start + rng.randint(1, 500)
            velocity = rng.randint(1, 127)
            events += [
                (start, 1, mido.Message("note_on", note=pitch, velocity=velocity, channel=channel)),
                (end, 0, mido.Message("note_off", note=pitch, channel=channel)),
            ]
        tick = 0
        for pressed in (True, False) * 4:
            tick += rng.randint(1, 600)
            value = rng.randint(64, 127) if pressed else rng.randint(0, 63)
            pedal = mido.Message("control_change", control=64, value=value, channel=channel)
            events.append((tick, 2, pedal))
        track, now = mido.MidiTrack(), 0
        for tick, _, message in sorted(events, key=lambda event: event[:2]):
            track.append(message.copy(time=tick - now))
            now = tick
        file.tracks.append(track)
    return file


def events_of(path: Path) -> list[int]:
    notes = sequences_lib.apply_sustain_control_changes(midi_io.midi_file_to_note_sequence(path))
    steps = sequences_lib.quantize_note_sequence_absolute(notes, 100)
    encoding = PerformanceOneHotEncoding(num_velocity_bins=BINS)
    performance = Performance(quantized_sequence=steps, num_velocity_bins=BINS)
    return [encoding.encode_event(event) for event in performance]


def main() -> None:
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.mid"
        for seed in range(3):
            random_file(seed).save(str(path))
            file = base64.b64encode(path.read_bytes()).decode()
            cases.append({"file": file, "events": events_of(path)})
    TARGET.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
