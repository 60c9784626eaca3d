"""Trials of all readers, each in a fork with limits: a result or one sentence, and nothing else.

`make fuzz SEED=1 TRIALS=100000` runs more; a trial that fails is named, with how to repeat it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.page.handlers import ROUTES
from tests.fuzz.progress import Progress
from tests.fuzz.readers.page import QUESTIONS
from tests.fuzz.registry import all_readers

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "fuzz" / "record.json"


def fuzz(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs trials in a process of their own: a fork of a process with threads may hang."""
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_a_thousand_trials():
    ended = fuzz("--seed", "1", "--trials", "1000")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
def test_ten_thousand_trials():
    ended = fuzz("--seed", "2", "--trials", "10000")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_page_has_a_question_for_each_route():
    assert {name for name, _ in QUESTIONS} == set(ROUTES)


def test_the_record_is_of_all_readers():
    found = json.loads(RECORD.read_text())
    assert set(found["readers"]) == set(all_readers())
    assert sum(one["trials"] for one in found["readers"].values()) == found["trials"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--keep", "{there}", "--trial", "1"), "{there} exists; name a new folder for --keep."),
        (("--keep", "{there}/new"), "--keep keeps the files of one trial; name it with --trial."),
        (("--only", "wave"), "There is no reader 'wave'; there are "),
    ],
)
def test_an_option_that_does_not_fit_gives_one_sentence(tmp_path, words, said):
    ended = fuzz(*(word.format(there=tmp_path) for word in words))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(said.format(there=tmp_path))
    assert len(ended.stderr.splitlines()) == 1


def test_a_terminal_shows_how_far_the_trials_are(capsys, monkeypatch):
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda self: True)
    progress = Progress(1000)
    progress.show(1, 0)
    progress.show(2, 0)  # at once: not shown
    progress.clear()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("\r\x1b[K1 of 1,000 trials, 0 failed, ")
    assert shown.err.count("trials") == 1 and shown.err.endswith("min left\r\x1b[K")


# --- the harness itself: each kind of defect is noticed -----------------------------------------

DEFECTS = {
    "traceback": "raise KeyError('x')",
    "wrong": "raise SilentlyWrongError('x')",
    "message": "raise InputError('no full stop')",
    "hang": "while True: pass",
    "memory": "x = bytearray(b'x') * 2**28",
    "escaped": "open('/tmp/outside-of-the-folder', 'w')",
    "noise": "os.write(2, b'warning')",
    "killed": "os.kill(os.getpid(), 11)",
    "refused": "raise InputError('One sentence.')",
    "read": "pass",
}
PROGRAM = """
import os, sys, tempfile
from pathlib import Path
from glassformer.errors import InputError
from tests.fuzz import sandbox
from tests.fuzz.registry import SilentlyWrongError

sandbox.SECONDS = 1

def read(folder):
    {code}

with tempfile.TemporaryDirectory() as place:
    (Path(place) / "files").mkdir()
    print(sandbox.attempt(read, Path(place) / "files").kind)
"""


@pytest.mark.parametrize("kind", DEFECTS)
def test_a_defect_is_noticed(kind):
    program = PROGRAM.format(code=DEFECTS[kind])
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ended.stdout.strip() == kind, ended.stderr
