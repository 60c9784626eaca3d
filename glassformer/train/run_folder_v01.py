"""Recognizes run folders of version 0.1, which have no manifest, so that such runs can resume.

They are recognized by files that only a run writes.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from glassformer.train.checkpointing import checkpoints, read_progress, step_folders
from glassformer.train.recipe import flatten

FILES = ("recipe.toml", "metrics.jsonl", "about.json")
DEFAULTS = ("tokenizer.min_frequency", "train.momentum", "train.save_every", "run.log_every")
PLOTS = ("loss.svg", "learning_rate.svg", "gradient.svg")
LINE = re.compile(r'\[.*\]|(\w|-|".*?")+ = .*|')  # a table, a key with its value, or an empty line
STORE = re.compile(r"(train|valid|test)-[0-9a-f]{16}(\.lock)?")
EVENTS = re.compile(r"events\.out\.tfevents\.\d+\..*")


def files_of_older_run(folder: Path) -> list[str]:
    """Returns the files that a run of version 0.1 continues to write.

    The list is empty if the folder is not certainly such a run.
    """
    needed = folder / ".lock", folder / "recipe.toml"
    if not all(path.is_file() for path in needed) or not _is_filled(needed[1]):
        return []
    if (folder / "finished.json").is_file():  # nothing else will be written
        return ["finished.json", *FILES]
    saved = checkpoints(folder / "state")
    if not saved:
        return []
    found = [path for path in (folder / name for name in FILES) if path.is_file()]
    found += [path for path in folder.iterdir() if EVENTS.fullmatch(path.name)]
    found += [path for name in PLOTS if (path := folder / "plots" / name).is_file()]
    parts = [*step_folders(folder / "state"), *step_folders(folder / "steps")]
    parts += [path for path in (folder / "data").glob("*") if STORE.fullmatch(path.name)]
    parts.append(folder / "tokenizer")
    if read_progress(saved[-1]).get("best") is not None:
        parts.append(folder / "best")
    for part in parts:
        found += [part] if part.is_file() else [p for p in part.rglob("*") if p.is_file()]
    return [path.relative_to(folder).as_posix() for path in found]


def _is_filled(recipe: Path) -> bool:
    """Returns whether a recipe has all defaults and no comments, as a run writes it."""
    try:
        text = recipe.read_text("utf-8")
        tables = tomllib.loads(text)
        plain = all(map(LINE.fullmatch, text.splitlines()))
        return plain and {*DEFAULTS} <= {*flatten(tables)}
    except (OSError, ValueError, RecursionError):
        return False
