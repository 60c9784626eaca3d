"""What docs/recipes.md shows of recipes/tuned.py's results."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tuning import ALONE, FIGURES, KINDS, MODES, SIDES

from bench import AT_ONCE, Rows, known, spread


def seeds_of(found: Mapping[str, Any], *sides: str) -> list[int]:
    """Those that every side has run with, beside as many others."""
    each = [{key.removeprefix(f"{s} ") for key in found if key.startswith(f"{s} ")} for s in sides]
    return sorted(
        int(seed)
        for seed in set.intersection(*each)
        if len({found[f"{side} {seed}"].get(AT_ONCE) for side in sides}) == 1
    )


def compared(folder: Path, names: Iterable[str], figure: str, *more: str) -> Rows:
    """A row a task and mode: the figure, in hundredths, and the seconds of both sides."""
    heads = [figure, *more, "time", "training"]
    rows = [["", "", *(f"{head}, {side}" for head in heads for side in SIDES), "time, ratio"]]
    for name in names:
        found = known(folder / f"{name}.json")
        for mode in MODES:
            seeds = seeds_of(found, *(f"{mode} {side}" for side in SIDES))
            if not seeds:
                continue
            runs = {side: [found[f"{mode} {side} {seed}"] for seed in seeds] for side in SIDES}
            cells = [
                spread([100 * run[key] for run in runs[side]])
                for key in (figure, *more)
                for side in SIDES
            ]
            cells += [
                f"{spread([run[key] for run in runs[side]])} s"
                for key in ("seconds", "training")
                for side in SIDES
            ]
            whole = [statistics.mean(run["seconds"] for run in runs[side]) for side in SIDES]
            rows.append([name, mode, *cells, f"{whole[0] / whole[1]:.2f}"])
    return rows


def together_table(found: Mapping[str, Any]) -> Rows:
    seeds = seeds_of(found, "together", *ALONE)
    rows = [["", "one model", "a model a task", "difference"]]
    if not seeds:
        return rows
    for task, (part, _, figure) in ALONE.items():
        both = [100 * found[f"together {seed}"][f"{part}/{figure}"] for seed in seeds]
        single = [100 * found[f"{task} {seed}"][figure] for seed in seeds]
        apart = statistics.mean(both) - statistics.mean(single)
        rows.append([f"{task} ({figure})", spread(both), spread(single), f"{apart:+.1f}"])
    one = [found[f"together {seed}"]["seconds"] for seed in seeds]
    three = [sum(found[f"{task} {seed}"]["seconds"] for task in ALONE) for seed in seeds]
    return [*rows, ["time", *(f"{spread(each)} s" for each in (one, three)), ""]]


def table(kind: str, folder: Path) -> Rows:
    if kind == "together":
        return together_table(known(folder / "together.json"))
    more = ("accuracy with threshold", "recall out of scope", "auroc") if kind == "scope" else ()
    return compared(folder, KINDS[kind], FIGURES[kind], *more)
