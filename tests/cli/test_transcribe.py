"""The verb transcribe: its formats and files, what is skipped, and what is no recording."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner
from whisper_models import voice, write_wav, write_whisper

from glassformer.cli import app
from glassformer.errors import GlassformerError

FAST = ["--beam-size", "1", "--temperature", "0", "--max-new-tokens", "8"]
NO_VAD = ["--no-vad"]  # the sounds are no voices


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("home")
    write_whisper(home / "model")
    for number in (1, 2):
        write_wav(home / f"{number}.wav", voice(0.8, number))
    write_wav(home / "silence.wav", np.zeros(16_000))
    (home / "bad.wav").write_bytes(b"RIFF")
    return home


def run(home: Path, *words: str, vad: bool = False):
    options = FAST if vad else FAST + NO_VAD
    result = CliRunner().invoke(app, ["transcribe", str(home / "model"), *words, *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        assert isinstance(result.exception, GlassformerError), result.exception
    return result


def test_lines_with_times_are_printed(home):
    result = run(home, str(home / "1.wav"))
    assert result.exit_code == 0
    assert result.stdout.startswith("[00:00.") and " --> " in result.stdout


def test_the_ending_selects_the_format(home, tmp_path):
    for ending, begin in (("srt", "1\n00:00:00"), ("vtt", "WEBVTT"), ("tsv", "start\t")):
        result = run(home, str(home / "1.wav"), "--out", str(tmp_path / f"a.{ending}"))
        assert result.exit_code == 0
        assert (tmp_path / f"a.{ending}").read_text("utf-8").startswith(begin)
    result = run(home, str(home / "1.wav"), "--format", "json", "--word-timestamps")
    found = json.loads(result.stdout)
    assert found["duration"] == 0.8 and "words" in found["segments"][0]
    assert "must end in" in str(run(home, "1.wav", "--out", "a.pdf").exception)


def test_a_folder_of_transcripts_is_completed(home, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "1.txt").write_text("mine")
    words = (str(home / "1.wav"), str(home / "2.wav"), "--output-dir", str(out))
    result = run(home, *words)
    assert result.exit_code == 0 and "1 recordings are finished" in result.stderr
    assert (out / "1.txt").read_text() == "mine" and (out / "2.txt").stat().st_size
    assert "2 recordings are finished" in run(home, *words).stderr
    assert run(home, *words, "--format", "all").exit_code == 0
    assert {p.suffix for p in out.glob("2.*")} == {".txt", ".srt", ".vtt", ".tsv", ".json"}
    assert (out / "1.txt").read_text() == "mine"


def test_other_recordings_follow_a_bad_one(home, tmp_path):
    paths = [str(home / name) for name in ("bad.wav", "none.wav", "1.wav")]
    result = run(home, *paths, "--output-dir", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.count("error: ") == 2
    assert "2 of 3 recordings were not transcribed" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["1.txt"]
    assert "bad.wav" in str(run(home, paths[0]).exception)


def test_silence_is_said_to_be_silence(home):
    result = run(home, str(home / "silence.wav"), vad=True)
    assert result.exit_code == 0 and result.stdout == ""
    assert "no speech in 1.0 s" in result.stderr


def test_wrong_words_are_named(home, tmp_path):
    one, two = str(home / "1.wav"), str(home / "2.wav")
    for words, said in (
        ((one, two, "--out", str(tmp_path / "a.txt")), "give --output-dir"),
        ((one, "--format", "all"), "needs a folder"),
        ((one, "--max-line-width", "9"), "need the times of words"),
        ((one, "--suppress-tokens", "a"), "is a list such as 1,2,7"),
        ((one, "--language", "klingon"), "knows English only|no language"),
        ((one, str(tmp_path / "1.wav"), "--output-dir", str(tmp_path)), "would both be"),
    ):
        assert said.split("|")[0] in str(run(home, *words).exception)


def test_standard_input(home):
    verb = [sys.executable, "-m", "glassformer", "transcribe"]
    command = [*verb, str(home / "model"), "-", *FAST, *NO_VAD]
    done = subprocess.run(
        command, input=(home / "1.wav").read_bytes(), capture_output=True, check=True
    )
    assert done.stdout.decode() == run(home, str(home / "1.wav")).stdout
