"""The manifest (run.json): the list of files in a run folder that the run has created.

It is written when a run begins in an empty folder, and a file is listed in it before the file is
created. Only listed files are replaced or removed; every other file belongs to the user. Files are
written in a draft folder, whose name contains the run's random id, and then renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError, LoadError
from glassformer.storage.files import encoded, sync_folder, write_synced
from glassformer.storage.parsing import parse_json

MANIFEST = "run.json"
DRAFT = f".{MANIFEST}.draft"
FORMAT = 1
MISSING = FileNotFoundError, NotADirectoryError


class Manifest:
    """The files of a run, as stored in run.json.

    Attributes:
        files: Paths relative to the run folder, with "/". For a file that was written as a whole
            text, the value lists the digests of the texts that it may hold; any other text was
            written by the user.
        appearing: Patterns under which another library is currently writing files, each with the
            user's files that existed before.
        clearing: True until all listed files are removed.
        adopted: True for a run of an older version, not all of whose files are known.
    """

    def __init__(self, folder: Path, identifier: str, *, adopted: bool = False) -> None:
        self.folder, self.id, self.adopted = folder, identifier, adopted
        self.clearing = False
        self.appearing: dict[str, list[str]] = {}
        self.files: dict[str, list[str]] = {}

    @classmethod
    def create(cls, folder: Path, files: Iterable[str] = (), *, adopted: bool = False) -> Manifest:
        """Creates and saves the manifest of a new run."""
        made = cls(folder, secrets.token_hex(8), adopted=adopted)
        made.files = {name: [] for name in files}
        made._save()
        sync_folder(folder)
        return made

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """Reads the manifest of a folder.

        Returns None if there is none; a run.json that is not a manifest may belong to the user.
        """
        try:
            if not (folder / MANIFEST).is_file():  # a pipe would be waited for
                return None
            content: Any = parse_json((folder / MANIFEST).read_bytes())
            if content["kind"] != "glassformer run":
                return None
            form = int(content["format"])
            if form == FORMAT and not _is_valid(content):
                return None
            made = cls(folder, content["id"], adopted=content["adopted"])
            made.clearing, made.appearing = content["clearing"], content["appearing"]
            made.files = content["files"]
        except (*MISSING, ValueError, KeyError, TypeError, RecursionError):
            return None
        if form != FORMAT:
            raise LoadError(
                f"{folder} holds a run of a newer version of Glassformer; update it, or name "
                "another run.out."
            )
        return made

    @property
    def drafts(self) -> Path:
        return self.folder / f".draft-{self.id}"

    def open(self) -> None:
        """Completes operations that a killed process left unfinished.

        Also checks that the listed files are regular ones in folders that are not links.
        """
        for name in (*self.files, self.drafts.name, f"{self.drafts.name}/draft"):
            self._path(name)
        shutil.rmtree(self.drafts, ignore_errors=True)
        before = json.dumps(self._content())
        for pattern in tuple(self.appearing):
            self._appeared(pattern)
        self.files = {name: message for name, message in self.files.items() if self._exists(name)}
        if json.dumps(self._content()) != before:
            self._save()
        if self.clearing:
            self.clear()

    def close(self) -> None:
        shutil.rmtree(self.drafts, ignore_errors=True)

    def owns(self, name: str) -> bool:
        """Returns whether the name is a listed file, or a folder that contains one."""
        return bool(self._listed(name))

    def claim(self, *names: str) -> None:
        """Lists files before they are created."""
        new = [name for name in names if name not in self.files]
        self.check(*new)
        if new:
            self.files |= {name: [] for name in new}
            self._save()

    def check(self, *names: str) -> None:
        """Raises an error if one of these names exists and was not written by the run."""
        for name in names:
            if self._exists(name) and not self.owns(name):
                raise self._foreign(name)

    def check_texts(self) -> None:
        """Raises an error if the user has changed one of the texts."""
        for name in self.files:
            self.check_text(name)

    def draft(self, name: str) -> Path:
        """Returns a free path at which to write a file or folder before `install`."""
        path = self.drafts / name
        shutil.rmtree(path, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def install(self, draft: Path, name: str) -> None:
        """Renames a draft to its final name.

        If the folder exists already, the run's files are replaced one by one, and those that the
        draft does not contain are removed; the user's files stay.
        """
        target = self._path(name)
        if not draft.is_dir():
            self.claim(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.replace(target)
            return
        inside = [path.relative_to(draft).as_posix() for path in _files_in(draft)]
        stale = set(self._listed(name)) - {f"{name}/{path}" for path in inside}
        self.claim(*(f"{name}/{path}" for path in inside))
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            draft.rename(target)
            return
        for path in sorted(inside, key=lambda path: path.endswith("config.json")):
            place = self._path(f"{name}/{path}")
            place.parent.mkdir(parents=True, exist_ok=True)
            (draft / path).replace(place)
        if stale and not self.adopted:
            self._remove(stale)
            self._save()

    @contextmanager
    def replacing(self, name: str) -> Iterator[Path]:
        """Yields a path at which to write a folder, and installs it under this name on exit."""
        draft = self.draft(name)
        try:
            yield draft
        except GlassformerError as error:
            message = str(error).replace(str(draft), str(self.folder / name))
            raise LoadError(message) from None
        self.install(draft, name)

    def write(self, name: str, text: str) -> None:
        """Atomically replaces a text file; raises an error if the user has changed it."""
        self.claim(name)
        self.check_text(name)
        draft = self.draft(name)
        write_synced(draft, text)
        now = self._digest(name)
        self.files[name] = [*([] if now is None else [now]), _digest(encoded(text))]
        self._save()
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.replace(path)

    @contextmanager
    def adding(self, *patterns: str) -> Iterator[None]:
        """Lists the files that appear under the patterns inside the context.

        Patterns are file names chosen by another library, or folders with everything inside.
        """
        with ExitStack() as stack:
            for pattern in patterns:
                stack.enter_context(self._adding(pattern))
            yield

    @contextmanager
    def _adding(self, pattern: str) -> Iterator[None]:
        self.appearing[pattern] = [n for n in self._matching(pattern) if n not in self.files]
        self._save()
        try:
            yield
        finally:
            self._appeared(pattern)
            self._save()

    def remove(self, name: str) -> None:
        """Removes a listed file, or the listed files in a folder."""
        listed = self._listed(name)
        if listed:
            self._remove(listed)
            self._save()

    def clear(self) -> None:
        """Removes the listed files, and nothing else."""
        self.check_texts()
        self.clearing = True
        self._save()
        self._remove(tuple(self.files))
        self.clearing = False
        self._save()

    def _appeared(self, pattern: str) -> None:
        theirs = set(self.appearing.pop(pattern))
        self.files |= {
            n: [] for n in self._matching(pattern) if n not in theirs and n not in self.files
        }

    def _matching(self, pattern: str) -> Iterator[str]:
        for found in self.folder.glob(pattern):
            if self._link_above(found) is None:
                folder = found.is_dir() and not found.is_symlink()
                for path in _files_in(found) if folder else [found]:
                    yield path.relative_to(self.folder).as_posix()

    def _remove(self, names: Iterable[str]) -> None:
        """Removes files, and folders that become empty."""
        for name in names:
            path = self._path(name)
            path.unlink(missing_ok=True)
            with suppress(OSError):  # stops at the first folder that is not empty
                for parent in path.relative_to(self.folder).parents[:-1]:
                    (self.folder / parent).rmdir()
            del self.files[name]

    def _path(self, name: str) -> Path:
        """Returns the path of a file of the run, which is inside the run folder.

        Raises an error if a folder above it is a link, or if something else has its place.
        """
        path = self.folder / name
        link = self._link_above(path)
        if link is not None:
            raise LoadError(
                f"{link} is a link, and a run writes only inside its folder; put the folder itself "
                "there, or let run.out be a link."
            )
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise LoadError(f"{path} is not a regular file; move it to another place.")
        return path

    def _link_above(self, path: Path) -> Path | None:
        """Returns the first folder between the run folder and the path that is a link."""
        above = reversed(path.relative_to(self.folder).parents[:-1])
        return next((one for part in above if (one := self.folder / part).is_symlink()), None)

    def _listed(self, name: str) -> list[str]:
        return [one for one in self.files if one == name or one.startswith(f"{name}/")]

    def _exists(self, name: str) -> bool:
        return os.path.lexists(self.folder / name)

    def _digest(self, name: str) -> str | None:
        path = self.folder / name
        return _digest(path.read_bytes()) if path.is_file() else None

    def check_text(self, name: str) -> None:
        """Raises an error if the user has changed a text."""
        if self.files[name] and self._digest(name) not in (None, *self.files[name]):
            raise LoadError(
                f"{self.folder / name} was changed after the run wrote it; move it to another "
                "place, and give the command again."
            )

    def _foreign(self, name: str) -> LoadError:
        return LoadError(
            f"{self.folder / name} was not written by the run in {self.folder}, which needs that "
            "name; move it to another place, and the same command resumes."
        )

    def _content(self) -> dict[str, Any]:
        return {
            "kind": "glassformer run",
            "format": FORMAT,
            "id": self.id,
            "adopted": self.adopted,
            "clearing": self.clearing,
            "appearing": self.appearing,
            "files": self.files,
        }

    def _save(self) -> None:
        draft = self.folder / DRAFT
        write_synced(draft, json.dumps(self._content(), indent=1) + "\n")
        draft.replace(self.folder / MANIFEST)


def _is_valid(content: Any) -> bool:
    """Returns whether the content has the form that `_content` gives it.

    An edited manifest cannot have files outside of its folder removed.
    """
    tables = content["files"], content["appearing"]
    return (
        isinstance(content["id"], str)
        and re.fullmatch(r"[0-9a-f]{16}", content["id"]) is not None
        and isinstance(content["clearing"], bool)
        and isinstance(content["adopted"], bool)
        and all(isinstance(table, dict) for table in tables)
        and all(_is_inside(name) for table in tables for name in table)
        and all(
            isinstance(words, list) and all(isinstance(word, str) for word in words)
            for table in tables
            for words in table.values()
        )
    )


def _is_inside(name: str) -> bool:
    """Returns whether a name is a relative path of an entry inside the folder."""
    parts = name.split("/")
    return "\0" not in name and not {"", ".", ".."} & {*parts}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _files_in(folder: Path) -> Iterator[Path]:
    """Yields all files below a folder.

    Links are not followed; a link to a folder counts as a file.
    """
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        yield from (Path(parent, name) for name in (*names, *links))
