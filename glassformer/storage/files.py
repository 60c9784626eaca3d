"""Storage, one file: it is written under another name, synced, and renamed."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from glassformer.errors import GlassformerError


@contextmanager
def atomic_file(path: Path, named: Callable[[], Path] | None = None) -> Iterator[IO[bytes]]:
    """A file to write into that takes the name `path` when everything is in it, or another name in
    that folder that `named` gives at the end.

    On an error, and if the process ends before, `path` is as it was. Of a symbolic link the link is
    replaced, not what it points to. A device or a pipe is written to directly.
    """
    if path.is_dir():
        raise GlassformerError(f"{path} is a folder; name a file.")
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~umask()
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise GlassformerError(f"{path} cannot be written ({error.strerror}).") from None
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, mode)
        path = path if named is None else named()
        os.replace(draft, path)
    except OSError as error:
        raise GlassformerError(
            f"{path} could not be written ({error.strerror or error}); nothing there has changed."
        ) from None
    finally:
        with suppress(OSError):
            os.unlink(draft)
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise GlassformerError(unconfirmed(path, error)) from None


def unconfirmed(path: Path, error: OSError) -> str:
    return (
        f"{path} is written, but the disk has not confirmed it ({error.strerror or error}); check "
        "the disk."
    )


def write_text(path: Path, text: str) -> None:
    """All of the text or, on an error, nothing."""
    with atomic_file(path) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Plainly: into a draft, which is synced as a whole."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """So that names that were given survive a power cut."""
    _sync(folder)


def sync_tree(folder: Path) -> None:
    """Everything in a folder, and the folder itself."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            _sync(Path(place) / name)
        _sync(Path(place))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
