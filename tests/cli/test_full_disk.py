"""Commands that write to a disk that is really full: a small file system in memory, if this user
may mount one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fork_server import ForkServer
from quick import quick
from test_user_files import contents
from verb_commands import COMMANDS, WRITING, make_home

SIZE = 1 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    made = ForkServer(CXX="false")
    yield made
    made.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return make_home(tmp_path_factory.mktemp("inputs") / "home")


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("free", quick([0, 4096, 8192, 40960], 4096))
@pytest.mark.parametrize("command", quick(WRITING, "lens", "index", "train"))
def test_nothing_is_damaged_on_a_full_disk(server, home, disk, command, free):
    mine = SIZE - os.sysconf("SC_PAGESIZE") - free
    (disk / "mine").write_bytes(b"m" * mine)
    before = contents(disk)
    out = COMMANDS[command].out
    line = COMMANDS[command].line(out=f"{disk}/{out}")
    ended = server.sandboxed(*line, cwd=home, place=disk)
    assert "Traceback" not in ended.stderr
    assert (disk / "mine").read_bytes() == b"m" * mine
    if ended.code == 0:
        assert (disk / out).exists()
        return
    assert ended.code == 1 and ended.stderr.count("error: ") == 1
    if command not in ("train", "index", "generate"):  # which go on with what there is
        assert contents(disk) == before
    (disk / "mine").unlink()
    assert server.sandboxed(*line, cwd=home, place=disk).code == 0
