"""Every verb in folders of unusual layouts: every file that existed still exists, byte for byte.

The verbs are those of the registry; a new one fails until verb_commands.py has a command for it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fork_server import Ended, ForkServer
from quick import quick
from recorded import recorded
from verb_commands import COMMANDS, WRITING, make_home, verbs

CONTINUED = ("index", "generate", "lens", "train")  # which go on with an output of their own
OFFLINE = {"PIP_NO_INDEX": "1"}


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """Without a compiler, so that no kernel is compiled into the user's cache."""
    made = ForkServer(CXX="false", **OFFLINE)
    yield made
    made.close()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    return make_home(tmp_path_factory.mktemp("inputs") / "home")


@pytest.fixture
def home(inputs, tmp_path) -> Path:
    """The inputs of all commands, and beside them files that no command names."""
    shutil.copytree(inputs, tmp_path / "home", symlinks=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "target.txt").write_text("outside")
    return tmp_path / "home"


def contents(place: Path) -> dict[str, bytes | str]:
    """Every file, link and pipe below a folder."""
    found: dict[str, bytes | str] = {}
    for folder, folders, names in os.walk(place):
        for path in (Path(folder, name) for name in (*folders, *names)):
            if path.is_symlink():
                found[str(path.relative_to(place))] = f"-> {os.readlink(path)}"
            elif not path.is_dir():
                regular = path.is_file()
                found[str(path.relative_to(place))] = path.read_bytes() if regular else "a pipe"
    return found


def lost(before: dict[str, bytes | str], place: Path) -> list[str]:
    after = contents(place)
    return [name for name, content in before.items() if after.get(name) != content]


def assert_ended_well(ended: Ended) -> None:
    """With its results, or with one sentence and exit code 1."""
    assert "Traceback" not in ended.stderr, ended.stderr
    assert ended.outside == [] and ended.unsynced == []
    assert ended.code == 0 or (ended.code == 1 and ended.stderr.count("error: ") == 1), ended


def test_every_verb_has_a_command():
    assert set(verbs()) == set(COMMANDS)


# --- inputs --------------------------------------------------------------------------------------


def plainly(home: Path) -> Path:
    return home


def behind_a_link(home: Path) -> Path:
    (home.parent / "link").symlink_to(home)
    return home.parent / "link"


def of_links(home: Path) -> Path:
    """As the Hugging Face hub's cache has it: each file is a link to one with another name."""
    blobs = home.parent / "blobs"
    blobs.mkdir()
    index = home / "notes.index"  # of which no file may be a link
    inputs = (path for path in home.rglob("*") if path.is_file() and index not in path.parents)
    for number, path in enumerate(sorted(inputs)):
        shutil.move(path, blobs / f"{number}")
        path.symlink_to(blobs / f"{number}")
    return home


def with_an_odd_name(home: Path) -> Path:
    return home.rename(home.parent / "a [x] é 'q' $HOME ; 名")


def among_other_files(home: Path) -> Path:
    """Names that are temporary ones elsewhere, in every folder."""
    folders = [home, *(path for path in home.rglob("*") if path.is_dir())]
    for folder in folders:
        for name in (".tmp", "x.part", "model.safetensors.bak", "draft", ".~lock", "tmpab12.so"):
            (folder / name).write_text(f"mine: {name}")
    return home


def read_only(home: Path) -> Path:
    for path in (home, *home.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    return home


def where(home: Path, command: str) -> tuple[Path, str]:
    """The working directory, and from there the prefix of paths: those of two commands differ."""
    if len(command) % 2 == 0:
        return home, ""
    return home / "models", "../"


LAYOUTS = [plainly, behind_a_link, of_links, with_an_odd_name, among_other_files, read_only]
CASES = [
    pytest.param(
        command,
        layout,
        id=f"{command}-{layout.__name__}",
        marks=[] if number % 9 == 1 and command not in ("check", "fetch") else [pytest.mark.slow],
    )
    for number, (command, layout) in enumerate(
        (command, layout) for layout in LAYOUTS for command in COMMANDS
    )
]


@pytest.mark.parametrize(("command", "layout"), CASES)
def test_what_was_there_is_there(server, home, request, command, layout: Callable[[Path], Path]):
    top, place = home.parent, layout(home)
    before = contents(top)
    cwd, prefix = where(place, command)
    line = COMMANDS[command].line(prefix)
    unprivileged = layout is read_only
    environment = {"XDG_CACHE_HOME": str(top / "cache")} if command == "fetch" else {}
    ended = server.sandboxed(*line, cwd=cwd, place=top, unprivileged=unprivileged, **environment)
    for path in home.rglob("*") if unprivileged else ():
        path.chmod(path.stat().st_mode | 0o200)
    with recorded(request, "layout", command):
        assert_ended_well(ended)
        assert lost(before, top) == []
        fails = COMMANDS[command].offline or (unprivileged and command in WRITING)
        assert ended.code == int(fails), ended.stderr
        if command not in WRITING and not COMMANDS[command].offline:
            assert ended.operations == []  # nothing is written, anywhere


# --- outputs -------------------------------------------------------------------------------------

OUTPUTS = {
    "a new folder": "new/deep/{name}",
    "a file": "mine.txt",
    "an empty folder": "empty",
    "a folder of texts": "notes",
    "this folder": ".",
    "the folder above": "..",
    "nothing": "",
    "a model": "models/lm",
    "beside weights": "models/lm/{name}",
    "a file of a model": "models/lm/config.json",
    "a link to a model": "linkmodel",
    "beside weights by a link": "linkmodel/{name}",
    "a folder of runs": "runs",
    "a run": "runs/10000-1000000",
    "a recipe": "runs/10000-1000000/recipe.toml",
    "in a run": "runs/10000-1000000/{name}",
    "a header": "notes.index/header.json",
    "rows of an index": "notes.index/rows-1",
    "a link to a file": "link{ending}",
    "a link to a folder": "linkfolder",
    "a file by a link": "linkfolder/target.txt",
    "by a link": "linkfolder/{name}",
    "a link to nothing": "broken{ending}",
    "a link to itself": "loop{ending}",
    "another name of an input": "hard.txt",
    "a pipe": "pipe{ending}",
    "a device": "/dev/null",
    "below a file": "mine.txt/{name}",
    "a name that is too long": "a" * 300 + "{ending}",
    "an input": "corpus.txt",
    "in capitals": "CORPUS.TXT",
    "a pattern": "[x]*{ending}",
}


@pytest.fixture
def odd_home(home) -> Path:
    outside = home.parent / "outside"
    (home / "empty").mkdir()
    (home / "linkfolder").symlink_to(outside)
    (home / "linkmodel").symlink_to("models/lm")
    os.link(home / "corpus.txt", home / "hard.txt")
    for ending in {Path(COMMANDS[command].out).suffix for command in WRITING}:
        (home / f"link{ending}").symlink_to(outside / "target.txt")
        (home / f"broken{ending}").symlink_to(outside / "gone")
        (home / f"loop{ending}").symlink_to(f"loop{ending}")
        os.mkfifo(home / f"pipe{ending}")
    return home


@pytest.mark.parametrize("kind", quick(OUTPUTS, "a link to itself", "a file", "a pipe"))
@pytest.mark.parametrize("command", quick(WRITING, "lens", "vectors convert"))
def test_an_output_takes_the_place_of_nothing(server, odd_home, request, command, kind):
    """With --overwrite, of no file but the one that it names."""
    name = COMMANDS[command].out
    out = OUTPUTS[kind].format(name=name, ending=Path(name).suffix)
    before = contents(odd_home.parent)
    line = COMMANDS[command].line(out=out)
    with recorded(request, "output", command):
        ended = server.sandboxed(*line, cwd=odd_home, place=odd_home.parent)
        assert_ended_well(ended)
        assert lost(before, odd_home.parent) == []
        if command not in CONTINUED:
            ended = server.sandboxed(*line, "--overwrite", cwd=odd_home, place=odd_home.parent)
            assert_ended_well(ended)
            folder, name = os.path.split(odd_home / out)
            named = os.path.relpath(os.path.join(os.path.realpath(folder), name), odd_home.parent)
            assert set(lost(before, odd_home.parent)) <= {named}
