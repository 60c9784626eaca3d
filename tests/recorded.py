"""Counts of the trials of a run with --all, from which tools/reliability.py makes a table."""

from __future__ import annotations

import json
import os
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "build" / "reliability"


def record(kind: str, name: str, trials: int) -> None:
    """Records that so many trials of a test have passed; a failed test records nothing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"kind": kind, "name": name, "trials": trials}) + "\n"
    with (FOLDER / f"{os.getpid()}.jsonl").open("a") as stream:
        stream.write(line)
