"""Every command that writes, stopped at its operations on files: by an error, by a power failure or
by a signal. One sentence, nothing damaged, and the same command then gives the whole result."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fork_server import Ended, ForkServer
from quick import quick
from recorded import recorded
from safetensors.torch import load_file
from test_user_files import CONTINUED, contents, lost
from verb_commands import COMMANDS, WRITING, make_home

FAULTS = ("error", "SIGTERM", "SIGHUP", "SIGINT", "power", "SIGKILL")
CAUGHT = ("SIGTERM", "SIGHUP", "SIGINT")
TIMED = ("about.json", "README.md", "run.json", "metrics.jsonl", "events", ".lock")
QUICK = [
    ("lens", "power"),
    ("generate", "SIGHUP"),
    ("vectors convert", "error"),
    ("embed", "SIGINT"),
    ("train", "SIGTERM"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    made = ForkServer(CXX="false")
    yield made
    made.close()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    return make_home(tmp_path_factory.mktemp("inputs") / "home")


def result_in(home: Path, command: str) -> dict[str, bytes | str]:
    """What a command has written, without what differs between two runs."""
    out = home / COMMANDS[command].out
    if out.is_file():
        return {"": out.read_bytes()}
    found = contents(out)
    kept = {name: data for name, data in found.items() if not name.endswith(TIMED)}
    if command == "train":
        kept = {n: d for n, d in kept.items() if n.startswith(("model", "best", "state"))}
        for name in [name for name in kept if name.startswith("state") and "shard" in name]:
            tensors = load_file(out / name).items()  # the header names its tensors in any order
            kept[name] = b"".join(t.numpy().tobytes() for _, t in sorted(tensors))
    return kept


def moments(operations: list[str], every: bool) -> list[int]:
    """The first and the last of operations that differ in numbers and temporary names only.

    Of hundreds, the first alone; without `every`, the one in the middle.
    """
    if not every:
        return [len(operations) // 2]
    alike: dict[str, list[int]] = {}
    for number, operation in enumerate(operations, 1):
        temporary = re.sub(r"\.[\w-]{8}$|draft-\w+|[0-9a-f]{8,}|\d+", "#", operation)
        alike.setdefault(temporary, []).append(number)
    several = len(operations) < 100
    return sorted({at for one in alike.values() for at in (one[0], one[-1 if several else 0])})


def assert_stopped_well(ended: Ended, fault: str) -> None:
    assert "Traceback" not in ended.stderr, ended.stderr
    if fault not in ("power", "SIGKILL"):
        assert ended.outside == [] and ended.unsynced == []
    if fault == "error":  # of which some harm nothing, as in removing a draft
        assert ended.code == 0 or (ended.code == 1 and ended.stderr.count("error: ") == 1), ended
    elif fault in CAUGHT and ended.code != 0:  # 0 if it was done
        assert ended.code == 130, ended.stderr
        assert re.search(r"(Interrupted\.|interrupted|Stopped)", ended.stderr), ended


@pytest.mark.parametrize(
    ("command", "fault"), quick([(c, f) for c in WRITING for f in FAULTS], *QUICK)
)
def test_nothing_is_damaged(server, inputs, tmp_path, request, command, fault):
    home, every = tmp_path / "home", request.config.getoption("all")

    def fresh() -> dict[str, bytes | str]:
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(inputs, home, symlinks=True)
        return contents(tmp_path)

    line = COMMANDS[command].line()
    before = fresh()
    whole = server.sandboxed(*line, cwd=home, place=tmp_path)
    assert whole.code == 0 and whole.unsynced == [], whole
    wanted, written = result_in(home, command), set(contents(tmp_path))
    assert wanted and whole.operations
    trials = moments(whole.operations, every)
    if command == "train" and fault != "error":  # hundreds: each has an error, and one of these
        trials = trials[FAULTS.index(fault) - 1 :: len(FAULTS) - 1] if every else trials
    for at in trials:
        with recorded(request, fault, command):
            fresh()
            ended = server.sandboxed(*line, cwd=home, place=tmp_path, fault=fault, at=at)
            assert_stopped_well(ended, fault)
            assert lost(before, tmp_path) == []
            if command not in CONTINUED and fault not in ("power", "SIGKILL"):
                assert set(contents(tmp_path)) <= written, f"something was left at {at}"
            if ended.code == 0:
                assert result_in(home, command) == wanted
            more = ["--overwrite"] if (home / COMMANDS[command].out).is_file() else []
            more = [] if command in CONTINUED else more
            again = server.sandboxed(*line, *more, cwd=home, place=tmp_path)
            assert again.code == 0, f"{whole.operations[at - 1]} ({at}): {again.stderr}"
            assert result_in(home, command) == wanted, f"{whole.operations[at - 1]} ({at})"
            assert lost(before, tmp_path) == []


def test_two_processes_do_not_write_one_output(server, inputs, tmp_path):
    """The second one is refused while the first holds the lock; nothing is damaged."""
    import fcntl

    shutil.copytree(inputs, tmp_path / "home")
    home = tmp_path / "home"
    assert server.sandboxed(*COMMANDS["index"].line(), cwd=home, place=home).code == 0
    assert server.sandboxed(*COMMANDS["train"].line(), cwd=home, place=home).code == 0
    (home / "written.jsonl").write_text("")
    (home / "notes" / "new.txt").write_text("A cat sleeps.")
    locks = {"index": "new.index/.lock", "train": "trained/.lock", "generate": "written.jsonl"}
    for command, lock in locks.items():
        before = contents(home)
        with (home / lock).open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            ended = server.sandboxed(*COMMANDS[command].line(), cwd=home, place=home)
        assert ended.code == 1 and "Another process" in ended.stderr
        assert ended.stderr.count("error: ") == 1 and contents(home) == before
        assert server.sandboxed(*COMMANDS[command].line(), cwd=home, place=home).code == 0
    assert len((home / "written.jsonl").read_text().splitlines()) == 2
    assert json.loads((home / "trained/finished.json").read_text())["step"] == 4
