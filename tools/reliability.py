"""The table of what was fuzzed, from tests/fuzz/record.json, as Markdown for docs/reliability.md.

python tools/reliability.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parents[1] / "tests" / "fuzz" / "record.json"
FAMILIES = "config.json"
COLUMNS = ("reader", "trials", "read", "refused", "other", "most CPU seconds", "most MB")


def table(record: dict[str, Any]) -> str:
    """Returns the counts per reader; the families' config.json are one row."""
    rows: dict[str, list[float]] = {}
    for name, found in record["readers"].items():
        row = rows.setdefault(FAMILIES if name.startswith(FAMILIES) else name, [0] * 6)
        other = found["trials"] - found.get("read", 0) - found.get("refused", 0)
        for i, count in enumerate((found["trials"], found.get("read", 0), found.get("refused", 0))):
            row[i] += count
        row[3] += other
        row[4] = max(row[4], found["most_cpu_seconds"])
        row[5] = max(row[5], found["most_megabytes"])
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    for name, row in sorted(rows.items()):
        lines.append(f"| {name} | {' | '.join(f'{value:,}' for value in row)} |")
    return "\n".join(lines)


def about(record: dict[str, Any]) -> str:
    return (
        f"{record['trials']:,} trials with seed {record['seed']} on {record['date']}, with Python "
        f"{record['python']} and torch {record['torch']}; {len(record['failures'])} ended neither "
        "with a result nor with one sentence."
    )


def main() -> None:
    record = json.loads(RECORD.read_text("utf-8"))
    print(f"{about(record)}\n\n{table(record)}")


if __name__ == "__main__":
    main()
