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
FAMILIES = "config.json"
COLUMNS = ("reader", "trials", "read", "refused", "other", "most CPU seconds", "most MB")
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
    fuzz = json.loads(FUZZ.read_text("utf-8"))
    survived = fuzz["trials"] - len(fuzz["failures"])
    what = "a damaged or hostile file to a reader"
    yield f"| {what} | {len(fuzz['readers'])} readers | {fuzz['trials']:,} | {survived:,} |"


def fuzz_table() -> Iterator[str]:
    """Yields the counts per reader; the config.json of all families are one row."""
    fuzz = json.loads(FUZZ.read_text("utf-8"))
    mended = len(fuzz.get("mended", ()))
    yield (
        f"{fuzz['trials']:,} trials with seed {fuzz['seed']} on {fuzz['date']}, with Python "
        f"{fuzz['python']} and torch {fuzz['torch']}; {len(fuzz['failures'])} ended neither with a "
        "result nor with one sentence"
        + (f", besides {mended} whose cause was mended and which were repeated" * bool(mended))
        + ".\n"
    )
    rows: dict[str, list[float]] = {}
    for name, found in fuzz["readers"].items():
        row = rows.setdefault(FAMILIES if name.startswith(FAMILIES) else name, [0] * 6)
        read, refused = found.get("read", 0), found.get("refused", 0)
        for i, count in enumerate((found["trials"], read, refused)):
            row[i] += count
        row[3] += found["trials"] - read - refused
        row[4] = max(row[4], found["most_cpu_seconds"])
        row[5] = max(row[5], found["most_megabytes"])
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * len(COLUMNS)}"
    for name, row in sorted(rows.items()):
        yield f"| {name} | {' | '.join(f'{value:,}' for value in row)} |"


def page(before: str) -> str:
    """Returns the page with a new table between the marks."""
    head, _, rest = before.partition(BEGIN)
    table = ["| what is tried | over | how often | survived |", "|---|---|---|---|", *rows()]
    parts = (BEGIN, "", *table, "", *fuzz_table(), "", "")
    return head + "\n".join(parts) + END + rest.partition(END)[2]


def main() -> None:
    if "--collect" in sys.argv[1:]:
        kinds = (f"{json.dumps(kind)}: {json.dumps(counts)}" for kind, counts in collect().items())
        RECORD.write_text("{\n" + ",\n".join(kinds) + "\n}\n", "utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
