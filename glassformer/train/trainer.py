"""Training entry points: `train` runs a recipe, `dry_run` estimates its cost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from inspect import Parameter
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.interrupts import terminable
from glassformer.loading import describe
from glassformer.model import Model
from glassformer.tasks.task_settings import COLUMNS, keep
from glassformer.train.batches import DataModule
from glassformer.train.build_data import (
    build_dataloader,
    check_columns,
    report_progress,
    tokenizer_texts,
)
from glassformer.train.build_model import build_model, initialize_from_vectors
from glassformer.train.build_objective import add_adapter, build_objective, with_labels
from glassformer.train.callbacks import (
    CheckpointCallback,
    EvaluationCallback,
    LogCallback,
    StepEnd,
    is_due,
)
from glassformer.train.checkpointing import Checkpointer
from glassformer.train.coerce import coerce_value
from glassformer.train.distributed import Worker, deterministic, init_distributed
from glassformer.train.early_stopping import metric_value
from glassformer.train.errors import (
    explain_lost_process,
    explain_model_memory,
    explain_step_errors,
)
from glassformer.train.estimate import RunEstimate, estimate_run
from glassformer.train.export import export_model
from glassformer.train.interrupt import InterruptHandler, TrainingInterrupted
from glassformer.train.loop import TrainingLoop
from glassformer.train.objectives import Objective
from glassformer.train.objectives.registry import check_options, objective_names, objective_of
from glassformer.train.open_run import open_run
from glassformer.train.recipe import ObjectiveSettings, Recipe, Table, read_recipe
from glassformer.train.report import own_reporters
from glassformer.train.reporter import Reporter
from glassformer.train.run_folder import Run, non_main_run

Source = str | Path | Table | Recipe
MIXTURE_OPTIONS = {"weight": 1.0, "rate": 1.0}
NO_DEFAULT = (Parameter.empty, None)  # TOML has no null value


def train(
    recipe: Source,
    overrides: Sequence[str] = (),
    *,
    restart: bool = False,
    extend: bool = False,
    device: str | None = None,
    reporters: Sequence[Reporter] = (),
) -> Run:
    """Trains a model according to a recipe and writes a run folder.

    A run that was interrupted resumes from its last checkpoint and gives bit-identical results to
    an uninterrupted run.

    Args:
        recipe: Path of a TOML file, its tables as a dict, or a `Recipe`.
        overrides: Settings that replace those of the recipe, each as `section.key=value`.
        restart: Whether to delete the files of an earlier run in the folder and start again.
        extend: Whether the run in the folder gets more steps or epochs than it had.
        device: Device to train on; replaces `scale.device`.
        reporters: Reporters to call in addition to those that the recipe configures.

    Returns:
        The finished run; `run.model` is the folder of the trained model.

    >>> run = gf.train("recipe.toml", ["train.max_steps=100"])
    >>> gf.load(run.model).generate("ROMEO:")
    """
    complete = complete_recipe(recipe, overrides)
    with (
        explain_interrupt(complete),
        init_distributed(device or complete.scale.device, complete.scale) as worker,
        ExitStack() as stack,
    ):
        stack.enter_context(explain_lost_process(worker))
        opening = partial(_open_run, complete, stack, restart, extend, reporters)
        run, reporters = worker.on_main(opening) or (non_main_run(complete), ())
        if run.finished is None or extend:
            with (
                deterministic(worker, complete.train.deterministic),
                explain_step_errors(complete.train),
            ):
                with explain_model_memory(), run.adding("tokenizer", "data"):
                    trainer = Trainer.from_recipe(complete, worker, run.folder, reporters)
                trainer.fit(run)
    return run


def _open_run(
    recipe: Recipe, stack: ExitStack, restart: bool, extend: bool, reporters: Sequence[Reporter]
) -> tuple[Run, Sequence[Reporter]]:
    """Opens the run until the stack is closed, and creates the reporters of the recipe."""
    reporters = [*reporters, *own_reporters(recipe.run)]
    progress = partial(report_progress, reporters, "checking the inputs")
    opened = open_run(recipe, restart=restart, extend=extend, progress=progress)
    return stack.enter_context(opened), reporters


class Trainer:
    """Trains a model: takes steps, logs, evaluates and saves.

    Args:
        loop: The training loop.
        reporters: Reporters to call in this process.
    """

    def __init__(self, loop: TrainingLoop, reporters: Sequence[Reporter] = ()) -> None:
        self.loop, self.reporters = loop, reporters

    @classmethod
    def from_recipe(
        cls, recipe: Recipe, worker: Worker, folder: Path, reporters: Sequence[Reporter] = ()
    ) -> Trainer:
        """Builds the model, the objective, the data and the optimizer of a recipe.

        What an earlier run or the main process has already written to the folder, such as a
        tokenizer and tokenized data, is read from there.

        Args:
            recipe: The complete recipe.
            worker: This process and its device.
            folder: The run folder.
            reporters: Reporters that receive progress and notes.
        """
        check_columns(recipe)
        recipe = with_labels(recipe)
        parts = worker.on_main_first(partial(_build, recipe, worker, folder, reporters))
        model, objective, data = parts
        recipe = _with_num_steps(recipe, data)
        return cls(TrainingLoop(recipe, model, objective, data, worker), reporters)

    def fit(self, run: Run) -> None:
        """Trains to the end of the run, from its last checkpoint if there is one."""
        loop = self.loop
        if run.is_begun:
            Checkpointer(loop, run).resume()
            if run.finished is not None:  # it gets more steps
                run.reopen()
                loop.state.stopped, loop.state.evaluations_since_best = False, 0
        else:
            run.cut(0)
            self.check_metric()
        estimate = estimate_run(loop)
        try:
            for reporter in self.reporters:
                reporter.begin(run, estimate)
            self.take_steps(run, estimate)
            self.export(run)
            summary = loop.state.summary()
            for reporter in self.reporters:
                reporter.finish(summary)
            run.finish(summary)
        finally:
            loop.data.close()
            for reporter in self.reporters:
                reporter.end()

    def take_steps(self, run: Run, estimate: RunEstimate) -> None:
        """Takes the remaining steps and calls the callbacks after each: log, evaluate, checkpoint.

        Ctrl-C, SIGTERM and SIGHUP end the run after a checkpoint of the current step.
        """
        loop, state, settings = self.loop, self.loop.state, self.loop.settings
        log = LogCallback(loop, run, estimate, self.reporters)
        evaluation = EvaluationCallback(loop, run, self.reporters)
        checkpoint = CheckpointCallback(loop, run, self.reporters)
        if not state.step:
            checkpoint.keep_model()
        with InterruptHandler() as interrupt:
            while state.step < settings.num_training_steps and not state.stopped:
                stats = loop.train_step()
                interrupted = any(loop.worker.all_gather(interrupt.requested))  # all agree
                last = state.step == settings.num_training_steps
                saves = is_due(state.step, settings.save_steps) or last or interrupted
                end = StepEnd(stats, last=last, checkpoint=saves)
                log.after_step(end)
                with log.throughput.paused():
                    evaluation.after_step(end)
                    checkpoint.after_step(end)
                if interrupted and not (last or state.stopped):
                    raise TrainingInterrupted(
                        f"Stopped after step {state.step} of {settings.num_training_steps}, which "
                        f"is saved in {run.folder}; the same command resumes from there."
                    )

    def export(self, run: Run) -> None:
        """Writes the model of the run: that of the end, or of the best evaluation."""
        loop = self.loop
        best = loop.settings.load_best_model_at_end and loop.state.best_step
        if not best or best == loop.state.step:
            export_model(loop, run.model, run.replacing)
            return

        def copy() -> None:
            with run.replacing(run.model) as draft:
                shutil.copytree(run.best, draft, dirs_exist_ok=True)

        loop.worker.on_main(copy)

    def check_metric(self) -> None:
        """Checks before the first step that evaluation yields `train.metric_for_best_model`."""
        metric = self.loop.settings.metric_for_best_model
        if "valid" in self.loop.data.held_out_splits and metric != "loss":
            metric_value(self.loop.evaluate(max_batches=1), metric)


def _build(
    recipe: Recipe, worker: Worker, folder: Path, reporters: Sequence[Reporter]
) -> tuple[Model, Objective, DataModule]:
    """Builds the parts of a training loop."""
    model = build_model(recipe, lambda: tokenizer_texts(recipe, reporters), folder / "tokenizer")
    if recipe.model.word_vectors is not None:
        initialize_from_vectors(model, recipe.model.word_vectors, reporters)
    model, objective = build_objective(recipe, model)
    if recipe.data.columns:
        keep(model, COLUMNS, **recipe.data.columns)
    data = build_dataloader(recipe, model, objective, worker, folder / "data", reporters)
    if recipe.adapter is not None:
        model = add_adapter(model, _with_num_steps(recipe, data))
    return model, objective, data


def _with_num_steps(recipe: Recipe, data: DataModule) -> Recipe:
    """Returns the recipe with the number of steps that its epochs amount to."""
    return replace(recipe, train=recipe.train.with_num_steps(data.steps_per_epoch))


@contextmanager
def explain_interrupt(recipe: Recipe) -> Iterator[None]:
    """Turns Ctrl-C, SIGTERM and SIGHUP into `TrainingInterrupted` outside the training steps.

    During the steps, the trainer handles these signals itself.
    """
    try:
        with terminable():
            yield
    except TrainingInterrupted:
        raise
    except KeyboardInterrupt:
        folder, steps = Path(recipe.run.out), recipe.train.max_steps
        done = Run(folder, recipe).step
        last = "" if steps is None else f" of {steps}"
        raise TrainingInterrupted(
            f"Stopped; step {done}{last} is saved in {folder}, and the same command resumes from "
            "there."
            if done
            else "Stopped before the first checkpoint; the same command begins again."
        ) from None


def dry_run(
    recipe: Source,
    overrides: Sequence[str] = (),
    *,
    device: str | None = None,
    reporters: Sequence[Reporter] = (),
) -> RunEstimate:
    """Estimates the cost of a run from a few real steps, without keeping anything on disk.

    Args:
        recipe: Path of a TOML file, its tables as a dict, or a `Recipe`.
        overrides: Settings that replace those of the recipe, each as `section.key=value`.
        device: Device to train on; replaces `scale.device`.
        reporters: Reporters that receive the progress of the preparation.

    Returns:
        The estimate of memory, time and floating-point operations.
    """
    complete = complete_recipe(recipe, overrides)
    with (
        init_distributed(device or complete.scale.device, complete.scale) as worker,
        explain_lost_process(worker),
        TemporaryDirectory(prefix="glassformer-") as folder,
        deterministic(worker, complete.train.deterministic),
        explain_step_errors(complete.train),
    ):
        reporters = reporters if worker.is_main else ()
        with explain_model_memory():
            loop = Trainer.from_recipe(complete, worker, Path(folder), reporters).loop
        try:
            return estimate_run(loop, measure=True)
        finally:
            loop.data.close()


def complete_recipe(recipe: Source, overrides: Sequence[str] = ()) -> Recipe:
    """Reads a recipe, and fills in the names and the options of its objectives."""
    return with_objective_defaults(_with_objective_names(read_recipe(recipe, overrides)))


def _with_objective_names(recipe: Recipe) -> Recipe:
    """Returns the recipe with the objective that learns a task such as "translation"."""
    known = objective_names()
    if all(objective_of(one.name) in known for one in recipe.objective):
        return recipe
    base = recipe.model.base
    *_, spec = describe(base or recipe.model.preset or "", or_preset=base is None)
    both = spec.is_encoder_decoder
    named = tuple(replace(one, name=objective_of(one.name, both)) for one in recipe.objective)
    return replace(recipe, objective=named)


def with_objective_defaults(recipe: Recipe) -> Recipe:
    """Returns the recipe with the default options of its objectives filled in."""
    mixed = len(recipe.objective) > 1
    return replace(recipe, objective=tuple(_with_defaults(one, mixed) for one in recipe.objective))


def _with_defaults(settings: ObjectiveSettings, mixed: bool) -> ObjectiveSettings:
    """Fills in the options of one objective.

    In a mixture, `weight` and `rate` are options of the mixture, not of the objective.
    """
    own = {k: v for k, v in settings.options.items() if not (mixed and k in MIXTURE_OPTIONS)}
    known = check_options(settings.name, own)
    defaults = {k: known[k].default for k in known if known[k].default not in NO_DEFAULT}
    given = {
        key: coerce_value(f"objective.{key}", value, known[key].kind) if key in known else value
        for key, value in settings.options.items()
    }
    return replace(settings, options=defaults | (MIXTURE_OPTIONS if mixed else {}) | given)
