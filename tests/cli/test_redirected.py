"""Every verb at a pseudo-terminal with standard output in a file, in a pipe, on a full disk, and in
a pipe that was closed: results are whole, and what is lost is told."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from fork_server import CLOSED, FULL, ForkServer
from made import make_run
from quick import quick
from small_models import bert, word_tokenizer
from whisper_models import voice, write_wav, write_whisper

from glassformer.cli import app

RECIPE = """
[model]
preset = "gpt2"
num_layers = 1
num_heads = 1
hidden_size = 16
context_length = 16
[tokenizer]
type = "byte-bpe"
vocab_size = 260
[data]
train = "{data}/stories.txt"
num_workers = 1
[train]
max_steps = 2
batch_size = 2
[run]
out = "run"
"""
TEXT = "The king and the queen sat in the garden, and a dog slept at their feet all afternoon."
CHINESE = "国王和王后坐在花园里，一只狗整个下午都睡在他们的脚边，谁也没有说话。" * 3


@dataclass(frozen=True)
class Example:
    """A command of a verb, with {data} for the folder of data. What it prints has numbers of a
    clock or a port; or it prints nothing, and writes a file."""

    words: str
    numbers: bool = False
    writes: str = ""


EXAMPLES = {
    "open": Example("zoo:letters --check --port 0", numbers=True),
    "inspect": Example("zoo:letters"),
    "lens": Example(
        "zoo:letters {data}/stories.txt --max-steps 1 --tokens-per-batch 16 --out lens"
    ),
    "check": Example("zoo:shakespeare"),
    "families": Example(""),
    "zoo": Example(""),
    "fetch": Example("microformer"),
    "generate": Example("zoo:letters ROMEO: --max-new-tokens 2"),
    "translate": Example("zoo:translator {data}/french.txt --target-language en --num-beams 1"),
    "summarize": Example("zoo:translator {data}/french.txt --num-beams 1 --max-new-tokens 4"),
    "fill": Example("zoo:encoder {data}/gaps.txt"),
    "score": Example("zoo:letters {data}/stories.txt"),
    "classify": Example("zoo:reader {data}/stories.txt --head sentiment"),
    "watch": Example("--label label --file {data}/days.jsonl"),
    "transcribe": Example("{data}/whisper {data}/voice.wav --beam-size 1 --temperature 0 --no-vad"),
    "tag": Example("zoo:reader {data}/stories.txt --words"),
    "answer": Example("{data}/answerer {data}/questions.jsonl"),
    "embed": Example("zoo:encoder {data}/stories.txt"),
    "index": Example("notes.index --model zoo:encoder --texts {data}/notes"),
    "search": Example("{data}/notes.index {data}/stories.txt"),
    "train": Example("{data}/recipe.toml --dry-run", numbers=True),
    "evaluate": Example("zoo:reader {data}/reviews.csv --head sentiment --n-resamples 10"),
    "runs": Example("{data}/runs"),
    "scaling": Example("{data}/runs"),
    "vectors train": Example(
        "{data}/words.txt --out v.txt --vector-size 4 --epochs 1", writes="v.txt"
    ),
    "vectors evaluate": Example("{data}/space.txt --analogies {data}/questions.txt"),
    "vectors nearest": Example("{data}/space.txt king"),
    "vectors analogy": Example("{data}/space.txt man king woman"),
    "vectors convert": Example("{data}/space.txt v.bin", writes="v.bin"),
}


def verbs(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        yield from verbs(inner, f"{name} {word}".strip())


VERBS = dict(verbs(typer.main.get_command(app)))
WAYS = [
    (name, way)
    for name, command in VERBS.items()
    for way in ("plain", "--json")
    if way == "plain" or any("--json" in one.opts for one in command.params)
]
PLAIN = [way for way in WAYS if way[1] == "plain"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    stories = [f"{TEXT} ({number})" for number in range(11)]
    write(folder / "stories.txt", *stories, CHINESE)
    write(folder / "french.txt", "Où est la gare ?", "Bonjour.")
    write(folder / "gaps.txt", "Paris is the ___ of France.", f"{TEXT} ___ and ___.")
    write(folder / "words.txt", *["A cat sleeps here ."] * 20)
    write(folder / "space.txt", "4 2", "man 1 0", "king 1 1", "woman -1 0.2", "queen -1 1")
    write(folder / "questions.txt", ": royal", "man king woman queen")
    write(folder / "reviews.csv", "text,label", f'"{TEXT}",positive', "Slow and dull.,negative")
    days = [
        {"date": str(date(2026, 1, 1) + timedelta(day)), "label": label}
        for day in range(10)
        for label in ["bad"] * (45 if day == 9 else 15) + ["good"] * (5 if day == 9 else 35)
    ]
    write(folder / "days.jsonl", *map(json.dumps, days))
    asked = {"question": f"Who slept? {TEXT}", "context": TEXT}
    write(folder / "questions.jsonl", *map(json.dumps, [asked] * 2))
    write(folder / "prompts.jsonl", json.dumps({"prompt": "ROMEO:", "max_new_tokens": 2}))
    write(folder / "recipe.toml", RECIPE.format(data=folder))
    (folder / "notes").mkdir()
    write(folder / "notes" / "story.txt", *stories)
    for size in (10**4, 10**5):
        for tokens in (10**6, 10**7):
            make_run(folder / f"runs/a-long-name-n{size}-d{tokens}", size, tokens, 1 + 9 / size)
    tokenizer = word_tokenizer(folder / "tokenizer", f"{TEXT} Who slept?")
    bert(tokenizer, "QuestionAnswering").save(folder / "answerer")
    write_whisper(folder / "whisper")
    write_wav(folder / "voice.wav", voice(0.4))
    (folder / "cache/glassformer/real/microformer").mkdir(parents=True)
    return folder


def write(path: Path, *lines: str) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


@pytest.fixture(scope="module")
def server(data) -> Iterator[ForkServer]:
    started = ForkServer(COLUMNS="30")
    index = ("index", str(data / "notes.index"), "--model", "zoo:encoder", "--texts")
    made = started.run(*index, str(data / "notes"), cwd=data / "made", stdout="pipe")
    assert made.code == 0, made.stderr
    yield started
    started.close()


def test_every_verb_has_an_example():
    assert set(EXAMPLES) == set(VERBS)


@pytest.mark.parametrize(("name", "way"), quick(WAYS, *PLAIN, ("classify", "--json")))
def test_results_are_written_wherever_standard_output_leads(server, data, tmp_path, name, way):
    example = EXAMPLES[name]
    words, environment = command(name, data)
    words += [] if way == "plain" else [way]
    run = partial(server.run, *words, **environment)
    away = run(cwd=tmp_path / "away", stdout="pipe", terminal=False)
    pipe = run(cwd=tmp_path / "pipe", stdout="pipe")
    file = run(cwd=tmp_path / "file", stdout=str(tmp_path / "out.txt"))
    for ended in (away, pipe, file):
        assert ended.code == 0, ended.stderr
        assert "…".encode() not in ended.stdout and b"\x1b" not in ended.stdout
        assert bool(ended.stdout) == (not example.writes)
        assert comparable(ended.stdout, example) == comparable(away.stdout, example)
    if example.writes:
        made = [(tmp_path / at / example.writes).read_bytes() for at in ("away", "pipe", "file")]
        assert made[0] and made == [made[0]] * 3


def comparable(shown: bytes, example: Example) -> bytes:
    return re.sub(rb"[\d.,:]+| +$", b"", shown, flags=re.M) if example.numbers else shown


def command(name: str, data: Path) -> tuple[list[str], dict[str, str]]:
    """The words of a verb's example, and the environment that it needs."""
    words = [*name.split(), *EXAMPLES[name].words.format(data=data).split()]
    return words, {"XDG_CACHE_HOME": str(data / "cache")} if name == "fetch" else {}


@pytest.mark.parametrize(
    "name",
    quick((n for n in VERBS if not EXAMPLES[n].writes), "families", "generate", "classify"),
)
def test_a_full_disk_and_a_closed_pipe_are_told(server, data, tmp_path, name):
    words, environment = command(name, data)
    run = partial(server.run, *words, terminal=False, **environment)
    for stdout, said in (
        (FULL, "cannot be written: No space left on device; the results are incomplete"),
        (CLOSED, "was closed before everything was written"),
    ):
        ended = run(cwd=tmp_path / stdout.strip("/"), stdout=stdout)
        assert ended.code == 1
        assert ended.stderr.splitlines()[-1] == f"error: Standard output {said}."
        assert ended.stderr.count("error: ") == 1
        assert "Traceback" not in ended.stderr and "Exception ignored" not in ended.stderr


@pytest.mark.parametrize("name", ["classify", "tag", "embed", "search"])
def test_a_table_in_a_file_has_whole_texts(server, data, tmp_path, name):
    words, _ = command(name, data)
    shown = server.run(*words, cwd=tmp_path / "x", stdout="pipe").stdout.decode()
    rows = [line.split("\t") for line in shown.splitlines()]
    assert len({len(row) for row in rows}) == 1
    cells = {cell for row in rows for cell in row}
    if name == "tag":
        assert {"stories.txt:1", "afternoon"} <= cells
    else:
        assert {f"{TEXT} (3)", CHINESE} <= cells
    if name == "embed":
        assert {len(row[0].split()) for row in rows[1:]} == {192}


FILES = {  # commands that write files, and what the error names
    "embed zoo:encoder {data}/stories.txt --out v.npy": "v.npy",
    "answer {data}/answerer {data}/questions.jsonl --out predictions.json": "predictions.json",
    "watch --label label --file {data}/days.jsonl --svg days.svg": "days.svg",
    "watch --label label --file {data}/days.jsonl --html days.html": "days.html",
    "runs {data}/runs --plot runs.svg": "runs.svg",
    "scaling {data}/runs --plot laws.svg": "laws.svg",
    "generate zoo:letters --batch {data}/prompts.jsonl --out out.jsonl": "out.jsonl",
    "lens zoo:letters {data}/stories.txt --max-steps 1 --tokens-per-batch 16 --out lens": "lens",
    "index notes.index --model zoo:encoder --texts {data}/notes": "notes.index",
    "vectors train {data}/words.txt --out v.txt --vector-size 4 --epochs 1": "The temporary folder",
    "vectors convert {data}/space.txt v.bin": "v.bin",
    "train {data}/recipe.toml": "run",
}


@pytest.mark.parametrize("command", FILES, ids=lambda command: command.split(" ")[0])
def test_a_file_that_cannot_be_written_is_named(server, data, tmp_path, command):
    """No file may have more than 16 bytes: as on a full disk, writing fails in the middle."""
    words = command.format(data=data).split()
    ended = server.run(*words, cwd=tmp_path / "x", stdout="pipe", largest=16)
    said = re.sub(r"\x1b\[[\d;?]*\w", "", ended.stderr).splitlines()
    (error,) = [line for line in said if "error: " in line]
    assert ended.code == 1 and FILES[command] in error and "File too large" in error
    assert "Traceback" not in ended.stderr
    left = {path.name for path in (tmp_path / "x").iterdir() if path.is_file()}
    assert left <= {"out.jsonl"}  # the same command goes on with it


def test_a_file_name_that_is_not_utf_8(server, tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")
    Path(name).write_text("Ada lived in London.\n")
    Path(tmp_path / "other.txt").write_text("Tom slept.\n")
    words = ("tag", "zoo:reader", "--file", name, "--file", str(tmp_path / "other.txt"))
    ended = server.run(*words, cwd=tmp_path / "cwd", stdout=str(tmp_path / "out.txt"))
    assert ended.code == 0, ended.stderr
    assert rb"caf\udce9.txt:1" in ended.stdout and b"other.txt:1" in ended.stdout
