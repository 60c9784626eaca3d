"""Plots of loss, learning rate and gradient norm, redrawn at every checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from glassformer.plotting import Panel, Series, draw
from glassformer.train.report.summary import evaluations_of, steps_of
from glassformer.train.reporter import Entry, Reporter

if TYPE_CHECKING:
    from glassformer.train.estimate import RunEstimate
    from glassformer.train.run_folder import Run


class Plots(Reporter):
    """Draws the plots in the run folder."""

    def begin(self, run: Run, plan: RunEstimate) -> None:
        self._run = run

    def save(self) -> None:
        self._draw()

    def finish(self, how: Mapping[str, Any]) -> None:
        self._draw()

    def _draw(self) -> None:
        for name, panel in panels(self._run.entries()).items():
            self._run.manifest.write(f"plots/{name}.svg", draw([panel]))


def panels(entries: Sequence[Entry]) -> dict[str, Panel]:
    steps, evaluations = steps_of(entries), evaluations_of(entries)
    at = [entry["step"] for entry in steps]
    loss = [
        Series(name="training", x=at, y=[entry["loss"] for entry in steps], faint=bool(evaluations))
    ]
    if evaluations:
        y = [entry["valid"]["loss"] for entry in evaluations]
        loss.append(Series(name="validation", x=[e["step"] for e in evaluations], y=y, color=1))

    def panel(title: str, key: str, log_y: bool = False) -> Panel:
        series = Series(x=at, y=[entry[key] for entry in steps])
        return Panel(title=title, x="step", y=title.lower(), series=[series], log_y=log_y)

    return {
        "loss": Panel(title="Loss", x="step", y="loss", series=loss),
        "learning_rate": panel("Learning rate", "learning_rate"),
        "gradient": panel("Gradient norm before clipping", "gradient", log_y=True),
    }
