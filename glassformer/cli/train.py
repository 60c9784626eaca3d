"""glassformer train: training by a recipe, with a progress bar."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.table import Table
from rich.text import Text

from glassformer.cli.evaluate import progress
from glassformer.cli.option_groups import grouped
from glassformer.cli.printing import is_main_process, output_console, progress_bar
from glassformer.cli.shared_options import Download
from glassformer.cli.train_options import TaskRunOptions
from glassformer.cli.verbs import verb
from glassformer.errors import GlassformerError
from glassformer.train.interrupt import TrainingInterrupted
from glassformer.train.reporter import Entry, Reporter

if TYPE_CHECKING:
    from glassformer.train.data_summary import DataSummary
    from glassformer.train.estimate import RunEstimate
    from glassformer.train.run_folder import Run

LABELS = 40  # number of labels in the table of the data
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@verb("train", group="Train and evaluate")
@grouped
def train(
    what: Annotated[
        str,
        typer.Argument(
            help="A task (classify, tag, answer, translate, summarize, transcribe, embed, "
            "generate, fill), a recipe, or the folder of a run to continue."
        ),
    ],
    options: TaskRunOptions,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="The files of a task, or a folder of texts; and settings that replace those of "
            "the recipe: section.key=value ..."
        ),
    ] = None,
    dry: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the resources that the run needs; write nothing."),
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start the run again from the beginning.")
    ] = False,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...")] = None,
    download: Download = False,
) -> None:
    """Train a model on a file, or by a recipe.

    For a file, the command detects the format, the columns, the labels and all settings, and writes
    them as a recipe. One row in ten is held out to select and to evaluate the best model.

    $ glassformer train classify my.csv --base zoo:encoder --out runs/mine
    $ glassformer train runs/mine --epochs 5
    $ glassformer train recipe.toml train.max_steps=1000 --dry-run
    """
    from glassformer.train.trainer import (
        dry_run,  # takes a second to import; other commands do not need it
    )
    from glassformer.train.trainer import train as start

    console = Console(stderr=True, quiet=not is_main_process())
    bar = ProgressBar(console)
    try:
        with options.errors_with_flags(what):
            recipe, settings, extend = options.recipe(what, files or [], console)
            if dry:
                plan = dry_run(recipe, settings, device=device, reporters=[bar])
                bar.end()
                output_console(quiet=not is_main_process()).print(table(plan))
                return
            run = start(
                recipe, settings, restart=restart, extend=extend, device=device, reporters=[bar]
            )
    except TrainingInterrupted as stopped:
        bar.end()
        console.print(str(stopped), soft_wrap=True, markup=False, highlight=False)
        raise typer.Exit(130) from None
    finally:
        bar.end()
    if is_main_process():  # other ranks may get here before the main one has written the results
        console.print(run_summary(run), soft_wrap=True, markup=False, highlight=False)
        if options.shows_metrics(what):
            show_metrics(run, what, console)


def show_metrics(run: Run, what: str, console: Console) -> None:
    """Prints the metrics of the run's model on the held-out rows, with confidence intervals."""
    from glassformer.cli.evaluate import show
    from glassformer.evaluate.held_out import evaluate_run
    from glassformer.tasks.task_words import verb_of

    try:
        with progress("evaluating") as passed:
            found = evaluate_run(run, verb_of(what), progress=passed)
    except GlassformerError as error:
        console.print(f"The held-out rows are not evaluated: {error}", soft_wrap=True, markup=False)
        return
    if found is not None:
        show(replace(found, classes=None), 0.95)


class ProgressBar(Reporter):
    """Live line with progress, loss, speed, device use and remaining time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = progress_bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[far]}"),
            TextColumn("{task.fields[status]}"),
            console=console,
        )
        self._task = self._bar.add_task("", total=None, far="", status="")
        self._plan: RunEstimate | None = None
        self._valid = ""

    @classmethod
    def on_standard_error(cls) -> ProgressBar:
        return cls(Console(stderr=True, quiet=not is_main_process()))

    def prepare(self, what: str, done: int, total: int | None) -> None:
        self._bar.start()
        far = "" if not total else f"{done / total:.0%}"
        self._bar.update(self._task, description=what, completed=done, total=total, far=far)

    def note(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False, highlight=False)

    def data(self, summary: DataSummary) -> None:
        self._console.print(data_table(summary))
        for note in summary.notes():
            self.note(note)

    def begin(self, run: Run, plan: RunEstimate) -> None:
        self._plan = plan
        self._bar.start()
        self._console.print(
            f"{plan.parameters:,} parameters, {plan.tokens_epoch:,} tokens an epoch, "
            f"{plan.steps:,} steps ({plan.epochs:.1f} epochs) into {run.folder}",
            soft_wrap=True,
            markup=False,
            highlight=False,
        )
        self._bar.reset(self._task, total=plan.steps, description="training", far="", status="")

    def step(self, entry: Entry) -> None:
        assert self._plan is not None
        step, speed = entry["step"], entry["speed"]
        a_second = speed["tokens_per_second"] / max(self._plan.tokens_step, 1)
        status = [
            f"loss {entry['loss']:.4f}{self._valid}",
            f"{speed['tokens_per_second']:,.0f} tokens/s",
            f"{speed['utilization']:.0%} used",
            f"{duration((self._plan.steps - step) / max(a_second, 1e-9))} left",
        ]
        far = f"{step:,}/{self._plan.steps:,}"
        self._bar.update(self._task, completed=step, far=far, status="  ".join(status))

    def valid(self, entry: Entry) -> None:
        self._valid = f" (valid {entry['valid']['loss']:.4f})"
        metrics = "  ".join(f"{name} {value:.4f}" for name, value in entry["valid"].items())
        self._console.print(
            f"step {entry['step']:>6,}  {metrics}", soft_wrap=True, markup=False, highlight=False
        )

    def end(self) -> None:
        if self._bar.live.is_started:  # otherwise it would end a line that never began
            self._bar.stop()


def run_summary(run: Run) -> str:
    """Returns a sentence on how a run has ended."""
    how = run.finished
    assert how is not None
    best = (
        f", best {how['best']:.4f} at step {how['best_step']:,}" if how["best"] is not None else ""
    )
    early = ", stopped early" if how["stopped"] else ""
    test = "".join(f", {name} {value:.4f}" for name, value in how.get("test", {}).items())
    tested = f"; on the test files{test[1:]}" if test else ""
    return f"{how['step']:,} steps done{early}{best}{tested}; the model is in {run.model}"


def table(plan: RunEstimate) -> Table:
    shown = Table(box=None, pad_edge=False, show_header=False)
    memory = plan.memory
    parts = {
        "weights": memory.weights,
        "gradients": memory.gradients,
        "optimizer": memory.optimizer,
        "average": memory.average,
        "activations": memory.activations or 0,
    }
    assert plan.seconds is not None and plan.seconds_step is not None
    speed = plan.tokens_step / plan.seconds_step
    rows = {
        "parameters": f"{plan.parameters:,}, of which {plan.trained:,} are trained",
        "tokens": f"{plan.tokens_epoch:,} an epoch, {plan.tokens_step:,} a step, "
        f"{plan.tokens_run:,} in {plan.steps:,} steps ({plan.epochs:.1f} epochs)",
        "memory": f"about {size(memory.total)}: "
        + ", ".join(f"{name} {size(count)}" for name, count in parts.items() if count),
        "speed": f"{speed:,.0f} tokens/s, {plan.utilization(speed):.0%} of the device",
        "time": f"about {duration(plan.seconds)}, without evaluations",
    }
    for name, value in rows.items():
        shown.add_row(f"[bold]{name}[/]", value)
    return shown


def data_table(summary: DataSummary) -> Table:
    """Returns the rows, labels and truncated texts of every split as a table."""
    splits = summary.splits.values()
    shown = Table(box=None, pad_edge=False)
    shown.add_column("data")
    for name in summary.splits:
        shown.add_column(name, justify="right")

    def add(name: str, counts: Iterable[int]) -> None:
        shown.add_row(Text(name), *(f"{count:,}" for count in counts))

    add("rows", (split.tally.rows for split in splits))
    if any(split.skipped for split in splits):
        add("rows left out", (split.skipped for split in splits))
    if any(split.documents != split.examples for split in splits):
        add("documents", (split.documents for split in splits))
    if any(split.examples != split.tally.rows for split in splits):
        add("examples", (split.examples for split in splits))
    if any(split.tally.truncated for split in splits):
        add("texts", (split.tally.texts for split in splits))
        add("texts that are cut", (split.tally.truncated for split in splits))
        shares = (split.tally.cut_tokens / max(split.tally.tokens, 1) for split in splits)
        shown.add_row("tokens that are cut", *(f"{share:.1%}" for share in shares))
        add("tokens of the longest text", (split.tally.longest for split in splits))
    if any(split.tally.seconds for split in splits):
        shown.add_row("sound", *(duration(split.tally.seconds) for split in splits))
        add("sounds that are too long", (split.tally.too_long for split in splits))
    if any(split.tally.speakers for split in splits):
        add("speakers", (len(split.tally.speakers) for split in splits))
    labels = list(summary.labels().items())
    for label, counts in labels[:LABELS]:
        add(f"label {label}", counts.values())
    if rest := labels[LABELS:]:
        add(
            f"{len(rest):,} more labels", map(sum, zip(*(c.values() for _, c in rest), strict=True))
        )
    return shown


def size(count: float) -> str:
    power = min(int(math.log(max(count, 1), 1024)), len(UNITS) - 1)
    return f"{count / 1024**power:,.1f} {UNITS[power]}" if power else f"{count:,.0f} B"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
