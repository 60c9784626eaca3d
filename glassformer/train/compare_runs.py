"""Finds run folders and compares their recipes and losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError, LoadError
from glassformer.plotting import Panel, Series
from glassformer.train.recipe import flatten
from glassformer.train.report.summary import RunSummary, evaluations_of, steps_of, summarize
from glassformer.train.run_folder import Run
from glassformer.train.stored_recipe import read_stored_recipe
from glassformer.weights.folder_kind import RECIPES, recipe_of


def find_runs(sources: Sequence[str]) -> list[RunSummary]:
    """Returns the summaries of the runs in these folders, each run once.

    A source is a run folder, a folder that contains some, or a pattern that matches either.
    """
    found: dict[Path, None] = {}
    for source in sources:
        folders = [Path(source)] if Path(source).exists() else sorted(map(Path, glob(source)))
        inside = [run for folder in folders for run in _within(folder)]
        if not inside:
            what = "holds no run" if folders else "does not exist"
            raise LoadError(f"{source} {what}; name folders that `glassformer train` has made.")
        found |= dict.fromkeys(inside)
    return [summarize(read_run(folder)) for folder in found]


def read_run(folder: Path) -> Run:
    """Reads a run folder without opening it for training."""
    try:
        return Run(folder, read_stored_recipe(recipe_of(folder) or folder / RECIPES[0]))
    except GlassformerError as error:
        raise LoadError(f"The run {folder} cannot be read: {error}") from None


def differing(summaries: Sequence[RunSummary]) -> dict[str, list[Any]]:
    """Returns the recipe keys that are not the same in all runs, with the value of each run."""
    recipes = [flatten(summary.recipe.tables()) for summary in summaries]
    keys = dict.fromkeys(key for recipe in recipes for key in recipe if key != "run.out")
    values = {key: [recipe.get(key) for recipe in recipes] for key in keys}
    return {key: each for key, each in values.items() if any(one != each[0] for one in each)}


def curves(summaries: Sequence[RunSummary], names: Sequence[str]) -> Panel:
    """Returns a plot of losses over tokens: training loss faint, validation loss in full."""
    series: list[Series] = []
    for color, (summary, name) in enumerate(zip(summaries, names, strict=True)):
        steps, evaluations = steps_of(summary.entries), evaluations_of(summary.entries)
        read, loss = [entry["tokens"] for entry in steps], [entry["loss"] for entry in steps]
        label = "" if evaluations else name
        series.append(Series(name=label, x=read, y=loss, color=color, faint=bool(evaluations)))
        if evaluations:
            at = [summary.tokens_at(entry["step"]) for entry in evaluations]
            y = [entry["valid"]["loss"] for entry in evaluations]
            series.append(Series(name=name, x=at, y=y, color=color))
    return Panel(
        title="Loss (training faint, validation full)", x="tokens", y="loss", series=series
    )


def short_names(summaries: Sequence[RunSummary]) -> list[str]:
    """Returns the folder paths without their common leading part."""
    folders = [summary.run.folder.resolve().parts for summary in summaries]
    common = 0
    while len({parts[: common + 1] for parts in folders}) == 1 and common < len(folders[0]) - 1:
        common += 1
    return [str(Path(*parts[common:])) for parts in folders]


def _within(folder: Path) -> Iterator[Path]:
    if recipe_of(folder) is not None and any(
        (folder / name).exists() for name in ("metrics.jsonl", ".lock")
    ):
        yield folder
    elif folder.is_dir():
        for inner in sorted(folder.iterdir()):
            if not inner.is_symlink():  # it may form a cycle
                yield from _within(inner)
