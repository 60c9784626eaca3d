"""glassformer runs: comparison of run folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from glassformer.cli.output_paths import OutputPath
from glassformer.cli.printing import output_console
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.plotting import Panel
    from glassformer.train.report.summary import RunSummary

FOLDERS = typer.Argument(help="Run folders, folders that contain some, or patterns such as 'r*'.")
Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="File for a plot; the name ends in .svg."),
    OutputPath(),
]
AS_JSON = typer.Option("--json", help="Print JSON.")


@verb("runs", group="Train and evaluate")
def runs(
    folders: Annotated[list[str], FOLDERS],
    plot: Plot = None,
    as_json: Annotated[bool, AS_JSON] = False,
) -> None:
    """Compare training runs: progress, metrics, speed and settings.

    $ glassformer runs 'runs/*' --plot curves.svg
    """
    from glassformer.train.compare_runs import curves, differing, find_runs, short_names

    found = find_runs(folders)
    names, other = short_names(found), differing(found)
    if plot is not None:
        write_plot(plot, [curves(found, names)])
    if as_json:
        rows = [{"name": name, **run.plain()} for name, run in zip(names, found, strict=True)]
        print(json.dumps({"runs": rows, "differing": other}, indent=2, ensure_ascii=False))
        return
    console = output_console()
    console.print(overview(found, names))
    if other:
        console.print("\nSettings that differ between the recipes:\n", style="bold")
        console.print(keys(other, names))


def overview(found: Sequence[RunSummary], names: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("run", "model"):
        table.add_column(column, overflow="fold")
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("objective", overflow="fold")
    for column in ("steps", "tokens", "best", "loss", "tokens/s"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for name, run in zip(names, found, strict=True):
        best, metric = run.best(), run.recipe.train.metric_for_best_model
        best_said = "" if best is None else f"{best[0]:.4f}"
        if best is not None and metric != "loss":
            best_said = f"{metric} {best_said}"
        done = run.last["step"] if run.last else 0
        total = run.num_steps
        table.add_row(
            name,
            run.model,
            f"{run.about.parameters:,}" if run.about else "",
            run.objective,
            f"{done:,}" if done == total else f"{done:,}/{total:,}",
            f"{run.tokens:,}",
            best_said,
            "" if run.last is None or run.last["loss"] is None else f"{run.last['loss']:.4f}",
            f"{run.tokens_per_second:,.0f}" if run.tokens_per_second else "",
            run.state,
        )
    return table


def keys(other: dict[str, list[Any]], names: Sequence[str]) -> Table:
    """Returns a table with a row per setting: its values, and the runs that have each.

    This stays readable for any number of settings and runs.
    """
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("key", no_wrap=True)
    table.add_column("values", overflow="fold")
    for key, values in other.items():
        having: dict[str, list[str]] = {}
        for name, value in zip(names, values, strict=True):
            having.setdefault(_value_text(value), []).append(name)
        if len(having) > 1:  # otherwise they differ only as missing and empty
            values_of_runs = (f"{value} ({', '.join(runs)})" for value, runs in having.items())
            table.add_row(key, ", ".join(values_of_runs))
    return table


def write_plot(path: Path, panels: Sequence[Panel]) -> None:
    from glassformer.plotting import draw
    from glassformer.storage.files import write_text

    if path.suffix != ".svg":
        raise ConfigError(f"--plot writes SVG pictures; name a file that ends in .svg, not {path}.")
    write_text(path, draw(panels))


def _value_text(value: Any) -> str:
    return "not said" if value in (None, []) else str(value)
