"""Atomic file writing: to a temporary name, then sync, then rename."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

from glassformer.errors import GlassformerError, LoadError


@contextmanager
def atomic_file(path: Path, named: Callable[[], Path] | None = None) -> Iterator[IO[bytes]]:
    """Opens a file for writing that gets its final name only when it is complete.

    On an error, or if the process ends early, `path` is unchanged. A symbolic link is replaced, not
    its target. A device or a pipe is written to directly.

    Args:
        path: The final path.
        named: Returns, at the end, another path in the same folder to use instead.
    """
    if path.is_dir():
        raise LoadError(f"{path} is a folder; name a file.")
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~umask()
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except GlassformerError:  # a LoadError is an OSError
        raise
    except OSError as error:
        raise LoadError(f"{path} cannot be written ({error.strerror}).") from None
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, mode)
        path = path if named is None else named()
        os.replace(draft, path)
    except GlassformerError:  # a LoadError is an OSError
        raise
    except OSError as error:
        raise LoadError(
            f"{path} could not be written ({error.strerror or error}); nothing there has changed."
        ) from None
    finally:
        with suppress(OSError):
            os.unlink(draft)
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise LoadError(unconfirmed(path, error)) from None


def unconfirmed(path: Path, error: OSError) -> str:
    return (
        f"{path} is written, but the disk has not confirmed it ({error.strerror or error}); check "
        "the disk."
    )


def write_text(path: Path, text: str) -> None:
    """Writes a text file completely or, on an error, not at all."""
    with atomic_file(path) as file:
        file.write(encoded(text))


def write_json(path: Path, value: Any) -> None:
    """Writes JSON without syncing, because a draft folder is synced as a whole."""
    path.write_bytes(json_line(value, indent=2))


def json_line(value: Any, indent: int | None = None) -> bytes:
    """Returns JSON in UTF-8."""
    return encoded(json.dumps(value, indent=indent, ensure_ascii=False) + "\n")


def encoded(text: str) -> bytes:
    """Returns a text in UTF-8; bytes of file names that are not UTF-8 are escaped."""
    return text.encode("utf-8", "backslashreplace")


def is_utf8(text: str) -> bool:
    """Returns whether a text, such as a path, has no bytes of another encoding."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def open_plain(path: Path, mode: Literal["w", "a", "r+"]) -> IO[bytes]:
    """Opens a regular file to write; creates it if needed, and follows no link to it.

    A folder from elsewhere may hold a link, a pipe or a device in the place of a file that is
    written there.
    """
    flags = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe without a reader does not block
    flags |= os.O_RDWR if mode == "r+" else os.O_WRONLY
    flags |= {"w": 0, "a": os.O_APPEND, "r+": 0}[mode]
    try:
        if path.is_symlink():
            raise LoadError(f"{path} is a link, which is not written through; remove it.")
        handle = os.open(path, flags, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise LoadError(f"{path} is not a regular file; remove it.")
            if mode == "w" and os.fstat(handle).st_size:
                os.ftruncate(handle, 0)
            return os.fdopen(handle, f"{mode}b")
        except BaseException:
            os.close(handle)
            raise
    except GlassformerError:  # a LoadError is an OSError
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_synced(path: Path, text: str) -> None:
    with open_plain(path, "w") as stream:
        stream.write(encoded(text))
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Syncs a folder, so that renames in it survive a power failure."""
    _sync(folder)


def sync_tree(folder: Path) -> None:
    """Syncs everything in a folder, and the folder itself."""
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
