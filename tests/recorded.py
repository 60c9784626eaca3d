"""Counts of trials in a run with --all, of which tools/reliability.py makes a table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "build" / "reliability"


@contextmanager
def recorded(request: Any, kind: str, name: str, trials: int = 1) -> Iterator[None]:
    """Counts the trials inside the context; they have survived unless it ends with an error."""
    survived = 0
    try:
        yield
        survived = trials
    finally:
        if request.config.getoption("all"):
            FOLDER.mkdir(parents=True, exist_ok=True)
            said = {"kind": kind, "name": name, "trials": trials, "survived": survived}
            with (FOLDER / f"{os.getpid()}.jsonl").open("a") as stream:
                stream.write(json.dumps(said) + "\n")
