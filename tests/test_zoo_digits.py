"""recipes/zoo/digits.py with tones in the place of recordings: nothing that is held out is learned,
times are true, and the recipe runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import glassformer as gf
from glassformer.signals.wav import read_wav
from glassformer.train.trainer import dry_run

ROOT = Path(__file__).parent.parent
SPEAKERS = ("ann", "bob")


@pytest.fixture(scope="module")
def digits():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "recipes" / "zoo"))
        import digits

        yield digits
    sys.modules.pop("digits", None)


@pytest.fixture(scope="module")
def fsdd(tmp_path_factory, digits):
    """A clip has a length of its own, by its number."""
    folder = tmp_path_factory.mktemp("fsdd")
    for speaker in SPEAKERS:
        for digit in range(10):
            for index in range(7):
                time = np.arange(800 + 10 * index + digit) / digits.RATE
                tone = 0.5 * np.sin(2 * np.pi * (300 + 40 * digit) * time)
                digits.write(folder / f"{digit}_{speaker}_{index}.wav", tone)
    return folder


def test_what_is_held_out_is_not_learned(digits, fsdd):
    learned, held = digits.read_clips([fsdd], None)
    for speaker in SPEAKERS:
        assert [len(clip) for clip in held[speaker][3]] == [803, 813, 823, 833, 843]
        assert [len(clip) for clip in learned[speaker][3]] == [853, 863]
    learned, held = digits.read_clips([fsdd], "ann")
    assert [*learned] == ["bob"] and [*held] == ["ann"]
    assert len(held["ann"][3]) == len(learned["bob"][3]) == 7


@pytest.fixture(scope="module")
def home(tmp_path_factory, digits, fsdd):
    home = tmp_path_factory.mktemp("digits")
    learned, held = digits.read_clips([fsdd], None)
    digits.make_sequences(home, "train", learned, 12, seed=1, real=1.0)
    digits.make_sequences(home, "valid", held, 6, seed=2, real=1.0)
    digits.make_base(home / "base")
    return home


def test_a_sequence_is_silent_between_its_digits(digits, home):
    rows = [json.loads(line) for line in (home / "valid.jsonl").read_text().splitlines()]
    assert {row["speaker"] for row in rows} <= {*SPEAKERS} and len(rows) == 6
    for row in rows:
        samples, rate = read_wav(home / row["audio"])
        heard = np.zeros(len(samples), bool)
        for one in row["segments"]:
            start, end = round(one["start"] * rate), round(one["end"] * rate)
            assert float(samples[start:end].abs().max()) > 0.05
            heard[start:end] = True
        assert float(samples[~heard].abs().max()) == 0.0
        assert row["text"].split() == [one["text"] for one in row["segments"]]
        assert 1 <= len(row["segments"]) <= digits.MOST


def test_the_recipe_runs(digits, home, tmp_path):
    assert gf.load(home / "base").num_parameters() * 2 < 5e6  # bytes in float16
    settings = [
        f"model.base={home / 'base'}",
        f"data.train={home / 'train.jsonl'}",
        f"data.validation={home / 'valid.jsonl'}",
        *("train.batch_size=2", "train.precision=float32", f"run.out={tmp_path / 'run'}"),
    ]
    plan = dry_run(ROOT / "recipes" / "zoo" / "digits.toml", settings, device="cpu")
    assert plan.steps == 12_000 and plan.parameters < 1.6e6
