"""Writes the table of docs/reliability.md: what was tried, how often, and what survived.

    python tools/reliability.py            # the table, from the committed records
    python tools/reliability.py --collect  # first takes over what the last tests with --all counted

The records are tests/reliability.json and, of the readers of files, tests/fuzz/record.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
COUNTED = ROOT / "build" / "reliability"
RECORD = ROOT / "tests" / "reliability.json"
FUZZ = ROOT / "tests" / "fuzz" / "record.json"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- made by tools/reliability.py -->", "<!-- end -->"
WHAT = {  # the kinds of trials, in the order of the table: what is tried, and over what
    "layout": ("a command in a folder of unusual layout", "verbs"),
    "output": ("an output that has the place of something else", "verbs"),
    "error": ("a full disk at an operation on files", "commands"),
    "power": ("a power failure at an operation on files", "commands"),
    "SIGKILL": ("a kill at an operation on files", "commands"),
    "SIGINT": ("Ctrl-C at an operation on files", "commands"),
    "SIGTERM": ("SIGTERM at an operation on files", "commands"),
    "SIGHUP": ("SIGHUP at an operation on files", "commands"),
    "error in a writer": ("a full disk at an operation on files", "writers"),
    "power in a writer": ("a power failure at an operation on files", "writers"),
    "run folder": ("a run folder with a changed manifest, a link or a pipe", "files and entries"),
    "question": ("a question of odd values to the page's server", "routes"),
}


def collect() -> dict[str, dict[str, list[int]]]:
    """Returns trials and survivors by kind and name."""
    found: dict[str, dict[str, list[int]]] = {}
    for path in sorted(COUNTED.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            said = json.loads(line)
            counts = found.setdefault(said["kind"], {}).setdefault(said["name"], [0, 0])
            counts[0] += said["trials"]
            counts[1] += said["survived"]
    return {kind: dict(sorted(found[kind].items())) for kind in sorted(found)}


def rows() -> Iterator[str]:
    record = json.loads(RECORD.read_text("utf-8"))
    for kind, (what, over) in WHAT.items():
        counts = record.get(kind, {}).values()
        if counts:
            tried, survived = (sum(numbers) for numbers in zip(*counts, strict=True))
            yield f"| {what} | {len(counts)} {over} | {tried:,} | {survived:,} |"
    if FUZZ.exists():
        fuzz = json.loads(FUZZ.read_text("utf-8"))
        readers = fuzz["readers"].values()
        tried = sum(reader["trials"] for reader in readers)
        survived = tried - sum(reader["failures"] for reader in readers)
        what = f"a damaged or hostile file to a reader (seed {fuzz['seed']})"
        yield f"| {what} | {len(fuzz['readers'])} readers | {tried:,} | {survived:,} |"


def page(before: str) -> str:
    """Returns the page with a new table between the marks."""
    head, _, rest = before.partition(BEGIN)
    table = ["| what is tried | over | how often | survived |", "|---|---|---|---|", *rows()]
    return head + "\n".join((BEGIN, "", *table, "", "")) + END + rest.partition(END)[2]


def main() -> None:
    if "--collect" in sys.argv[1:]:
        kinds = (f"{json.dumps(kind)}: {json.dumps(counts)}" for kind, counts in collect().items())
        RECORD.write_text("{\n" + ",\n".join(kinds) + "\n}\n", "utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
