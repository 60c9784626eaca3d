"""Atomic folder writing: one rename replaces several files.

The new files are written into a draft folder. If the target does not exist, the draft is renamed to
it. If it exists, the draft is inside it and is synced; renaming the draft to `PENDING` is what
commits the save. Before that rename the folder has its old contents, after it the new ones: the
files are then moved to their places, and every reader first completes the move that a killed
process has left (`complete_pending_save`), so that no reader sees a mixture.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from glassformer.errors import GlassformerError, LoadError
from glassformer.storage.files import sync_folder, sync_tree, umask, unconfirmed, write_json
from glassformer.storage.names import named_in
from glassformer.storage.parsing import parse_json

PENDING = ".glassformer-saved"
MANIFEST = ".manifest.json"  # in a draft: its keys, and the files to remove
DRAFT = ".glassformer-draft-"

_drafts: set[Path] = set()  # that this process is writing


@contextmanager
def atomic_folder(
    folder: Path,
    *,
    keys: Sequence[str] = (),
    obsolete: Callable[[Path], Iterable[str]] = lambda folder: (),
) -> Iterator[Path]:
    """Yields a draft folder whose files replace those of the same name in `folder` at the end.

    Either all files are replaced or, on an error, none. Other files in `folder` stay, except those
    that `obsolete` names. Inside another draft the files are written directly, and are committed
    with it.

    Args:
        folder: The target folder.
        keys: Files without which other programs do not read the folder. They are removed first and
            added last, so that those programs see no mixture either.
        obsolete: Returns the names of files in the target to remove.
    """
    if not _drafts.isdisjoint((folder, *folder.parents)):
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    if folder.is_symlink() and not folder.exists():
        raise LoadError(f"{folder} is a link to nothing; name a folder to save into.")
    if folder.exists() and not folder.is_dir():
        raise LoadError(f"{folder} is a file; name a folder to save into.")
    target = folder.resolve()
    with ExitStack() as ending:
        try:
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
            draft = _new_draft(target, ending)
        except GlassformerError:  # a LoadError is an OSError
            raise
        except OSError as error:
            raise LoadError(f"{folder} cannot be written ({error.strerror}).") from None
        try:
            yield draft
            os.chmod(draft, 0o777 & ~umask())
            if target.exists():
                files = _files(draft)
                _check(target, files)
                old = sorted(set(obsolete(target)) - set(map(str, files)))
                write_json(draft / MANIFEST, {"keys": list(keys), "remove": old})
            sync_tree(draft)
            _commit(draft, target, ending)
        except GlassformerError:  # a LoadError is an OSError
            raise
        except (OSError, SafetensorError) as error:
            raise LoadError(
                f"{folder} could not be written ({_why(error)}); nothing there has changed."
            ) from None
        try:
            if _is_pending(target):
                _complete(target)
            else:
                sync_folder(target.parent)
        except GlassformerError:  # a LoadError is an OSError
            raise
        except OSError as error:
            raise LoadError(
                f"{folder}: the new files are written and not yet in their places "
                f"({_why(error)}); the next load or save there puts them in place."
                if _is_pending(target)
                else unconfirmed(folder, error)
            ) from None


def complete_pending_save(folder: Path) -> None:
    """Moves the files of a committed save to their places, if its process was stopped before."""
    if not _is_pending(folder):
        return
    try:
        with _locked(folder, fcntl.LOCK_EX):
            _complete(folder)
    except GlassformerError:  # a LoadError is an OSError
        raise
    except OSError as error:
        raise LoadError(
            f"The last save into {folder} is written and not yet in its place, and cannot be put "
            f"there ({_why(error)}); make the folder writable and read it again."
        ) from None


@contextmanager
def stable_folder(folder: Path) -> Iterator[None]:
    """Prevents other processes from replacing files of a folder while several are read."""
    if not folder.is_dir():
        yield
        return
    while True:
        complete_pending_save(folder)
        with _locked(folder, fcntl.LOCK_SH):
            if not _is_pending(folder):
                yield
                return


def tidy(folder: Path) -> None:
    """Completes a pending save, and removes the drafts of processes that were killed."""
    if folder.is_dir():
        complete_pending_save(folder)
        _remove_drafts(folder, DRAFT)


def _new_draft(folder: Path, ending: ExitStack) -> Path:
    """Creates a draft inside the folder, or next to it if it does not exist.

    Its lock shows that a process is writing it.
    """
    inside = folder.exists()
    home, prefix = (folder, DRAFT) if inside else (folder.parent, f".{folder.name}{DRAFT}")
    if inside:
        complete_pending_save(folder)
    with _locked(home, fcntl.LOCK_EX):
        _remove_drafts(home, prefix)
        draft = Path(tempfile.mkdtemp(prefix=prefix, dir=home))
        ending.enter_context(_locked(draft, fcntl.LOCK_EX))
    _drafts.add(draft)
    ending.callback(_drafts.discard, draft)
    ending.callback(shutil.rmtree, draft, ignore_errors=True)
    return draft


def _remove_drafts(home: Path, prefix: str) -> None:
    for draft in home.glob(f"{prefix}*"):
        if draft.is_symlink() or not draft.is_dir():
            continue
        with suppress(OSError), _locked(draft, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(draft)


def _commit(draft: Path, folder: Path, ending: ExitStack) -> None:
    """Makes the new files the folder's by a single rename."""
    if not folder.exists():
        draft.rename(folder)
        return
    ending.enter_context(_locked(folder, fcntl.LOCK_EX))
    if _is_pending(folder):  # of another process, which was killed
        _complete(folder)
    draft.rename(folder / PENDING)


def _complete(folder: Path) -> None:
    """Moves the files of a pending save. It can be interrupted anywhere and restarted."""
    if not _is_pending(folder):
        return
    sync_folder(folder)  # the commit must be on disk before its files are moved
    pending = folder / PENDING
    keys, remove = _manifest(pending / MANIFEST, folder)
    files = _files(pending)
    _check(folder, files)
    for path in (*remove, *(folder / key for key in keys if key in files)):
        if path.is_symlink() or path.is_file():
            path.unlink()
    for file in sorted(files, key=lambda file: file in keys):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        os.replace(pending / file, folder / file)
    for place in {(folder / file).parent for file in files} | {folder}:
        sync_folder(place)
    (pending / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(pending)


def _is_pending(folder: Path) -> bool:
    pending = folder / PENDING
    return pending.is_dir() and not pending.is_symlink()


def _manifest(path: Path, folder: Path) -> tuple[list[Path], list[Path]]:
    """Returns the keys as paths relative to the draft, and the files to remove."""
    if not path.is_file():  # all files have been moved
        return [], []
    try:
        said = parse_json(path.read_bytes())
        keys, remove = list(said["keys"]), list(said["remove"])
    except (ValueError, KeyError, TypeError):
        raise LoadError(f"{path} was not written by Glassformer; remove it.") from None
    return (
        [named_in(folder, name, path).relative_to(folder) for name in keys],
        [named_in(folder, name, path) for name in remove],
    )


def _files(draft: Path) -> list[Path]:
    """Returns the files to move, as paths relative to the draft."""
    found = []
    for place, folders, names in os.walk(draft):
        for name in (*folders, *names):
            path = Path(place) / name
            if path.is_symlink():
                raise LoadError(f"{path} is a link, which no save writes; remove it.")
        found += [(Path(place) / name).relative_to(draft) for name in names]
    return sorted(file for file in found if file != Path(MANIFEST))


def _check(folder: Path, files: Iterable[Path]) -> None:
    """Checks that only files are replaced, and that no link leads out of the folder."""
    for file in files:
        if (folder / file).is_dir():
            raise LoadError(
                f"{folder / file} is a folder, and a file of that name is to be saved; move it "
                "away, or save into another folder."
            )
        for parent in file.parents[:-1]:
            place = folder / parent
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                raise LoadError(
                    f"{place} is no folder of {folder}, and files are to be saved in it; move it "
                    "away, or save into another folder."
                )


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """Locks a folder. Some network file systems have no locks; there only one process may write."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # its files can be read, but not listed
        yield
        return
    try:
        try:
            fcntl.flock(handle, how)
        except OSError:
            if how & fcntl.LOCK_NB:
                raise
        yield
    finally:
        os.close(handle)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).rpartition("I/O error: ")[2]
