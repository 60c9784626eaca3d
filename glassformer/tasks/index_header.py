"""The header of a search index, which is validated before files are read or written.

All files of an index are in its folder; a header or a link that leads out of it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from glassformer.errors import GlassformerError, LoadError
from glassformer.storage.files import json_line, open_plain
from glassformer.storage.folders import complete_pending_save
from glassformer.storage.names import named_in
from glassformer.storage.parsing import has_form, parse_json

HEADER, JOURNAL = "header.json", "journal.jsonl"
FILES = ("vectors.bin", "places.bin", "texts.bin", JOURNAL)
FORMAT = "glassformer-index-1"
SETTINGS = {  # the form of what `Index.create` writes
    **dict.fromkeys(("model", "fingerprint", "dtype?", "texts"), str),
    "patterns": [str],
    "length": int,
    "pooling": {
        "modes": [str],
        "normalize": bool,
        "length": (int, None),
        "prompts": {"*": str},
        "prompt": (str, None),
        "skip_prompt": bool,
        "similarity": str,
    },
}
ROWS = re.compile(r"rows-[1-9][0-9]{0,8}")


def read_header(folder: Path) -> dict[str, Any]:
    complete_pending_save(folder)
    path = folder / HEADER
    try:
        header = parse_json(path.read_bytes())
    except OSError:
        raise LoadError(
            f"{folder} contains no index ({HEADER}); make one with glassformer index."
        ) from None
    except ValueError as error:
        raise LoadError(f"{path} is not JSON ({error}).") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise LoadError(f"{path} is not the header of a known kind of index.")
    width = header.get("width")
    if type(width) is not int or width < 1 or header.get("kept") not in ("float16", "float32"):
        raise LoadError(
            f"{path} does not say the width and the precision of its vectors; make the index again."
        )
    rows_folder(folder, header)
    return header


def check_settings(folder: Path, header: Mapping[str, Any]) -> None:
    """Raises an error if the header of an index lacks the settings of its texts and model."""
    if not has_form(dict(header), SETTINGS) or header["length"] < 1:
        raise LoadError(f"{folder / HEADER} is damaged; make the index again.")


def header_text(header: Mapping[str, Any]) -> str:
    return json_line(header, indent=2).decode()


def rows_folder(folder: Path, header: Mapping[str, Any]) -> Path:
    """Returns the folder of rows that a header names; it may not exist yet."""
    path = named_in(folder, header.get("rows"), folder / HEADER)
    if not ROWS.fullmatch(path.name):
        raise LoadError(
            f"{folder / HEADER} names {path.name!r}, and rows are in rows-1, rows-2, ...; make "
            "the index again."
        )
    for one in (path, *(path / name for name in FILES)):
        if one.is_symlink():
            raise LoadError(f"{one} is a link, which an index cannot contain; make it again.")
    return path


def next_rows(folder: Path) -> str:
    """Returns a name for a folder of rows that does not exist yet."""
    numbers = [int(path.name.partition("-")[2]) for path in _all_rows(folder)]
    return f"rows-{max(numbers, default=0) + 1}"


def remove_rows(folder: Path, keep: Path) -> None:
    """Deletes rows that are not in use: the index's files in their folders, then empty folders."""
    for path in _all_rows(folder):
        if path == keep or path.is_symlink() or not path.is_dir():
            continue
        with suppress(OSError):  # other files are in the folder, or the next time will do
            for name in FILES:
                (path / name).unlink(missing_ok=True)
            path.rmdir()


def _all_rows(folder: Path) -> Iterator[Path]:
    return (path for path in folder.glob("rows-*") if ROWS.fullmatch(path.name))


def opened(path: Path) -> IO[bytes]:
    """Opens a file of an index for writing; creates it if needed and never follows a link."""
    try:
        return open_plain(path, "r+")
    except GlassformerError:  # a LoadError is an OSError
        raise
    except OSError as error:
        raise LoadError(f"{path} cannot be written ({error.strerror}).") from None
