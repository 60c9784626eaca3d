"""What the makers of the zoo's data share: texts that count as the same, and files of records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SIGNS = re.compile(r"[\W_]+")


def same(text: str) -> str:
    """Equal for texts that differ in case, punctuation and spaces alone."""
    return SIGNS.sub("", text.casefold())


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    write(path, "".join(f"{line}\n" for line in lines))


def write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    write_lines(path, (json.dumps(one, ensure_ascii=False) for one in records))


def write_table(path: Path, head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Tabs between, and no quotes."""
    write_lines(path, ("\t".join(row) for row in (head, *rows)))


def read_records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
