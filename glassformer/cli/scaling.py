"""glassformer scaling: power laws of the loss over run folders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.table import Table

from glassformer.cli.printing import output_console
from glassformer.cli.runs import AS_JSON, FOLDERS, Plot, write_plot
from glassformer.cli.verbs import verb

if TYPE_CHECKING:
    from glassformer.train.scaling_fit import LawFit
    from glassformer.train.scaling_laws import Scaling


@verb("scaling", group="Train and evaluate")
def scaling(
    folders: Annotated[list[str], FOLDERS],
    plot: Plot = None,
    as_json: Annotated[bool, AS_JSON] = False,
) -> None:
    """Fit scaling laws of the loss to compute, data and parameters.

    $ glassformer scaling 'runs/*' --plot laws.svg
    """
    from glassformer.train.compare_runs import find_runs, short_names
    from glassformer.train.scaling_laws import fit_scaling, panels

    found = find_runs(folders)
    fitted = fit_scaling(found, short_names(found))
    if plot is not None:
        write_plot(plot, panels(fitted))
    if as_json:
        print(json.dumps(fitted.plain(), indent=2, ensure_ascii=False))
        return
    show(fitted, output_console())


def show(fitted: Scaling, console: Console) -> None:
    for note in fitted.notes:
        console.print(f"Note: {note}.", soft_wrap=True, markup=False, highlight=False)
    console.print(law_table(fitted))
    missing = [(f"L({trend.of})", trend.why) for trend in fitted.trends if trend.fit is None]
    if fitted.joint is None:
        missing.append(("L(N, D)", fitted.why))
    for name, why in missing:
        console.print(f"No {name}: {why}.", soft_wrap=True, markup=False, highlight=False)
    console.print(
        "N: parameters of the layers, without embeddings and heads; D: tokens read; C = 6 N D. "
        "In brackets: 95% intervals, by resampling.",
        style="dim",
        highlight=False,
    )
    if fitted.best():
        console.print("\nThe best split of compute, by L(N, D):\n", style="bold")
        console.print(best(fitted))


def law_table(fitted: Scaling) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("law", "constants", "error", "runs"):
        table.add_column(column, justify="left" if column in ("law", "constants") else "right")
    for trend, x in zip(fitted.trends, ("C", "D", "N"), strict=True):
        if trend.fit is not None:
            fitted_constants = constants(trend.fit, ("a",), ("b",), "c")
            count = f"{len(trend.points)} of {len(fitted.points)}"
            table.add_row(
                f"L({x}) = a {x}^-b + c", fitted_constants, f"{trend.fit.error:.2%}", count
            )
    if fitted.joint is not None:
        fitted_constants = constants(fitted.joint, ("A", "B"), ("alpha", "beta"), "E")
        law, error = "L(N, D) = E + A N^-alpha + B D^-beta", f"{fitted.joint.error:.2%}"
        table.add_row(law, fitted_constants, error, str(len(fitted.points)))
    return table


def constants(fit: LawFit, scales: tuple[str, ...], exponents: tuple[str, ...], floor: str) -> str:
    def rows(name: str, *values: float) -> str:
        value, low, high = (f"{each:.4g}" for each in values)
        return f"{name} = {value} ({low} to {high})"

    found, low, high = fit.law, fit.low, fit.high
    lines = [
        *map(rows, scales, found.scales, low.scales, high.scales),
        *map(rows, exponents, found.exponents, low.exponents, high.exponents),
        rows(floor, found.floor, low.floor, high.floor),
    ]
    return "\n".join(lines)


def best(fitted: Scaling) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("C", "N", "D", "loss"):
        table.add_column(column, justify="right")
    for one in fitted.best():
        table.add_row(
            f"{one.compute:.3g}", f"{one.parameters:.3g}", f"{one.data:.3g}", f"{one.loss:.4f}"
        )
    return table
