"""Storage, a folder: several files replace several others by one rename.

The new files are written into a draft. A folder that does not exist yet is the draft, renamed. In
one that does, the draft lies inside and is synced; the rename of the draft to `PENDING` is what
saves it. Before that rename the folder is the old one. After it the folder is the new one: the
files are moved to their places, and whoever reads the folder here (`settle`) first moves what a
process that was killed has left, so that no reader sees some of both.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from glassformer.errors import GlassformerError
from glassformer.storage.files import sync_folder, sync_tree, umask, unconfirmed, write_json
from glassformer.storage.names import named_in

PENDING = ".glassformer-saved"
MANIFEST = ".manifest.json"  # in a draft: its keys, and what is removed
DRAFT = ".glassformer-draft-"

_drafts: set[Path] = set()  # that this process writes


@contextmanager
def atomic_folder(
    folder: Path,
    *,
    keys: Sequence[str] = (),
    obsolete: Callable[[Path], Iterable[str]] = lambda folder: (),
) -> Iterator[Path]:
    """A folder to write into. When everything is in it, its files take the place of those of the
    same name in `folder`: all of them, or on an error none. Other files in `folder` stay, except
    those whose names `obsolete` gives.

    `keys` are files without which other programs do not read the folder: they are taken away first
    and come last, so that those find no mixture either. Inside of another draft the files are
    written directly, and become whole with it.
    """
    if not _drafts.isdisjoint((folder, *folder.parents)):
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    if folder.is_symlink() and not folder.exists():
        raise GlassformerError(f"{folder} is a link to nothing; name a folder to save into.")
    if folder.exists() and not folder.is_dir():
        raise GlassformerError(f"{folder} is a file; name a folder to save into.")
    target = folder.resolve()
    with ExitStack() as ending:
        try:
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
            draft = _new_draft(target, ending)
        except OSError as error:
            raise GlassformerError(f"{folder} cannot be written ({error.strerror}).") from None
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
        except (OSError, SafetensorError) as error:
            raise GlassformerError(
                f"{folder} could not be written ({_why(error)}); nothing there has changed."
            ) from None
        try:
            if _is_pending(target):
                _complete(target)
            else:
                sync_folder(target.parent)
        except OSError as error:
            raise GlassformerError(
                f"{folder}: the new files are written and not yet in their places "
                f"({_why(error)}); the next load or save there puts them in place."
                if _is_pending(target)
                else unconfirmed(folder, error)
            ) from None


def complete_pending_save(folder: Path) -> None:
    """Puts the files of a save in their places that a process was stopped in after its rename."""
    if not _is_pending(folder):
        return
    try:
        with _locked(folder, fcntl.LOCK_EX):
            _complete(folder)
    except OSError as error:
        raise GlassformerError(
            f"The last save into {folder} is written and not yet in its place, and cannot be put "
            f"there ({_why(error)}); make the folder writable and read it again."
        ) from None


@contextmanager
def stable_folder(folder: Path) -> Iterator[None]:
    """While several files of a folder are read, nobody puts others in their places."""
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
    """Settles a folder, and removes the drafts of processes that were killed."""
    if folder.is_dir():
        complete_pending_save(folder)
        _remove_drafts(folder, DRAFT)


def _new_draft(folder: Path, ending: ExitStack) -> Path:
    """Inside of the folder, or beside it where there is none yet. Its lock says that somebody is
    writing it."""
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
    """The one rename that makes the new files the folder's."""
    if not folder.exists():
        draft.rename(folder)
        return
    ending.enter_context(_locked(folder, fcntl.LOCK_EX))
    if _is_pending(folder):  # of another process, which was killed since
        _complete(folder)
    draft.rename(folder / PENDING)


def _complete(folder: Path) -> None:
    """May be stopped anywhere and begun again."""
    if not _is_pending(folder):
        return
    sync_folder(folder)  # the save is on the disk before its files leave it
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
    """The keys, by their paths from the draft, and what is removed."""
    if not path.is_file():  # all files are in their places
        return [], []
    try:
        said = json.loads(path.read_text("utf-8"))
        keys, remove = list(said["keys"]), list(said["remove"])
    except (ValueError, KeyError, TypeError):
        raise GlassformerError(f"{path} is not of a save by Glassformer; remove it.") from None
    return (
        [named_in(folder, name, path).relative_to(folder) for name in keys],
        [named_in(folder, name, path) for name in remove],
    )


def _files(draft: Path) -> list[Path]:
    """Those to be put in place, by their paths from the draft."""
    found = []
    for place, folders, names in os.walk(draft):
        for name in (*folders, *names):
            path = Path(place) / name
            if path.is_symlink():
                raise GlassformerError(f"{path} is a link, which no save writes; remove it.")
        found += [(Path(place) / name).relative_to(draft) for name in names]
    return sorted(file for file in found if file != Path(MANIFEST))


def _check(folder: Path, files: Iterable[Path]) -> None:
    """That nothing but files stands where files come, and no link leads out of the folder."""
    for file in files:
        if (folder / file).is_dir():
            raise GlassformerError(
                f"{folder / file} is a folder, and a file of that name is to be saved; move it "
                "away, or save into another folder."
            )
        for parent in file.parents[:-1]:
            place = folder / parent
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                raise GlassformerError(
                    f"{place} is no folder of {folder}, and files are to be saved in it; move it "
                    "away, or save into another folder."
                )


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    """Some network folders know no locks; there one process at a time must be enough."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # its files can be read, and not listed
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
