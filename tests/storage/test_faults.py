"""Every writer, stopped at every operation, leaves its old state or its new one, and all else as it
was; what it says of that is true."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import writers  # noqa: F401 (it registers them)
from faults import WRITERS, attempt
from recorded import recorded

from glassformer.storage.folders import DRAFT, PENDING

MEMORY = Path("/dev/shm")  # where syncing takes no time
OURS = (DRAFT, PENDING)


def tree(place: Path) -> dict[str, bytes | str]:
    """Every file and link by its path, but for what a process that was stopped has left."""
    found: dict[str, bytes | str] = {}
    for folder, folders, names in os.walk(place):
        folders[:] = [name for name in folders if not any(mark in name for mark in OURS)]
        for path in (Path(folder) / name for name in (*folders, *names)):
            name = path.relative_to(place).as_posix()
            if path.is_symlink():
                found[name] = f"-> {os.readlink(path)}"
            elif path.is_file():
                found[name] = path.read_bytes()
    return found


@pytest.fixture
def in_memory(tmp_path):
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def add_user_files(place: Path) -> None:
    """Beside what is written, and among it where that is a folder."""
    (place.parent / "outside").mkdir()
    (place.parent / "outside" / "target.txt").write_text("outside")
    for folder in (place, place / "it"):
        if folder.is_dir():
            for name in ("my_model_backup.safetensors", "pytorch_model.bin.old", "notes.txt"):
                (folder / name).write_text(f"mine: {name}")
            (folder / "figures").mkdir()
            (folder / "figures" / "model.safetensors").write_text("mine too")
            (folder / "link.txt").symlink_to(place.parent / "outside" / "target.txt")


@pytest.mark.parametrize("fault", ["error", "power"])
@pytest.mark.parametrize("name", WRITERS)
def test_the_old_state_or_the_new_one(name, fault, in_memory, request):
    writer, place, kept = WRITERS[name], in_memory / "place", in_memory / "kept"
    place.mkdir()
    writer.old(place)
    before = set(tree(place))
    add_user_files(place)
    user = {name: content for name, content in tree(place).items() if name not in before}
    outside = tree(in_memory / "outside")
    shutil.copytree(place, kept, symlinks=True)

    def restore() -> None:
        shutil.rmtree(place)
        shutil.copytree(kept, place, symlinks=True)

    old = writer.read(place)
    other_old = writer.other(place) if writer.other else None
    whole = attempt(lambda: writer.write(place), place)
    assert whole.finished and whole.outside == [] and len(whole.operations) > 3
    assert whole.unsynced == []  # what is renamed is synced
    new, other_new, written = writer.read(place), None, set(tree(place))
    if writer.other:
        other_new = writer.other(place)
    assert old != new, "the fault cannot be seen"

    for at, operation in enumerate(whole.operations, 1):
        with recorded(request, f"{fault} in a writer", name):
            restore()
            ended = attempt(lambda: writer.write(place), place, fault, at)
            where = f"{operation} ({at} of {len(whole.operations)}): {ended.message}"
            assert ended.outside == [], where
            if writer.other and fault == "power":
                try:
                    seen = writer.other(place)
                except (OSError, ValueError):
                    seen = other_new
                assert seen in (other_old, other_new), f"another program reads a mixture at {where}"
            state = writer.read(place)
            assert state in (old, new), where
            if ended.finished:
                assert state == new, where
            if ended.message is not None:
                changed = "nothing there has changed" not in ended.message
                assert state == old or changed, where
                assert state == new or "is written" not in ended.message, where
                assert state == new or "not yet in their places" not in ended.message, where
            found = tree(place)
            assert {name: found.get(name) for name in user} == user, where
            if fault == "error":
                assert set(found) <= before | written | set(user), where
            assert tree(in_memory / "outside") == outside, where
            writer.write(place)
            assert writer.read(place) == new, f"otherwise again after {where}"
            assert not [
                path for path in place.rglob(".*") if any(mark in path.name for mark in OURS)
            ]
