"""Validates file names from headers, so that they stay inside the header's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glassformer.errors import LoadError

LONGEST = 255  # bytes of a name in the usual file systems


def is_plain(name: Any) -> bool:
    """Whether it can name an entry of a folder: no path, no drive, neither "." nor ".."."""
    return (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and not any(character in name for character in "/\\:\0")
        and len(name.encode("utf-8", "surrogatepass")) <= LONGEST
    )


def named_in(folder: Path, name: Any, header: Path) -> Path:
    """Returns the path of the entry of `folder` that the file `header` names."""
    if not is_plain(name):
        raise LoadError(
            f"{header} names {name!r}, which is not a plain name in {folder}; get {header.name} "
            "again."
        )
    return folder / str(name)
