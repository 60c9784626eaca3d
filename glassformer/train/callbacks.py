"""Callbacks after each training step: logging, evaluation and checkpoints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.errors import ConfigError
from glassformer.train.checkpointing import Checkpointer, step_name
from glassformer.train.early_stopping import EarlyStopping, metric_value
from glassformer.train.estimate import RunEstimate
from glassformer.train.export import export_model
from glassformer.train.loop import StepStats, TrainingLoop
from glassformer.train.reporter import Entry, Reporter
from glassformer.train.run_folder import Run
from glassformer.train.throughput import Throughput
from glassformer.train.weight_averaging import has_settled


@dataclass(frozen=True)
class StepEnd:
    """A step that was just taken.

    Attributes:
        stats: Results of the step.
        last: Whether it is the last step of the run.
        checkpoint: Whether a checkpoint follows, also because of an interruption.
    """

    stats: StepStats
    last: bool
    checkpoint: bool


class LogCallback:
    """Writes the loss and the speed to the log, and stops a run whose loss is not finite."""

    def __init__(
        self, loop: TrainingLoop, run: Run, estimate: RunEstimate, reporters: Sequence[Reporter]
    ) -> None:
        self.loop, self.run, self.reporters = loop, run, reporters
        self.throughput = Throughput(loop.worker, estimate, loop.state.tokens)

    def after_step(self, end: StepEnd) -> None:
        state = self.loop.state
        logged = (
            is_due(state.step, self.run.recipe.run.logging_steps) or state.step == 1 or end.last
        )
        if not (logged or end.checkpoint):
            return
        entry = self.loop.log_entry(end.stats)
        self.check_loss(entry)
        if logged:
            entry["speed"] = self.throughput.measure(state.tokens)
            self.run.log(entry)
            for reporter in self.reporters:
                reporter.step(entry)

    def check_loss(self, entry: Entry) -> None:
        """Raises an error if the loss is not finite.

        In float16 a step may overflow; it is then skipped and the loss scale is changed.
        """
        if not math.isfinite(entry["loss"]) and self.loop.settings.precision != "float16":
            raise ConfigError(
                f"The loss of step {entry['step']} is {entry['loss']}; lower train.learning_rate, "
                "raise train.warmup_steps or set train.max_grad_norm, and start again with "
                "--restart."
            )


class EvaluationCallback:
    """Evaluates, saves the best model, and decides on early stopping and weight averaging.

    Each model that becomes the best is also evaluated on the test files, so that the test metrics
    are those of the best model wherever the run ends. Test metrics influence no decision.
    """

    def __init__(self, loop: TrainingLoop, run: Run, reporters: Sequence[Reporter]) -> None:
        self.loop, self.run, self.reporters = loop, run, reporters
        settings = loop.settings
        self.early_stopping = EarlyStopping(
            settings.metric_for_best_model,
            settings.early_stopping_patience,
            settings.metric_tolerance,
        )

    def after_step(self, end: StepEnd) -> None:
        if not (end.last or is_due(self.loop.state.step, self.loop.settings.eval_steps)):
            return
        splits = self.loop.data.held_out_splits
        if "valid" in splits:
            self.validate(tested="test" in splits)
        elif "test" in splits and end.last:
            self.loop.state.test = self.loop.evaluate("test")

    def validate(self, tested: bool) -> None:
        """Evaluates on the validation files, and if the model is the best, on the test files."""
        loop, state = self.loop, self.loop.state
        metrics = loop.evaluate()
        entry: Entry = {"step": state.step, "valid": metrics}
        value = metric_value(metrics, self.early_stopping.metric)
        self.start_averaging(value)
        best = self.early_stopping.is_best(state, value)
        if best and tested:
            entry["test"] = state.test = loop.evaluate("test")
        self.run.log(entry)
        self.early_stopping.update(state, value)
        if best:
            export_model(loop, self.run.best, self.run.replacing)
        for reporter in self.reporters:
            reporter.valid(entry)

    def start_averaging(self, value: float) -> None:
        """Starts the plain mean of the weights once evaluations no longer improve."""
        state, after = self.loop.state, self.loop.settings.averaging_patience
        if after and not state.averaging_start:
            if has_settled(self.early_stopping.metric, state.metric_history, value, after):
                state.averaging_start = state.step
            state.metric_history.append(value)


class CheckpointCallback:
    """Writes checkpoints, and the models that `run.snapshots` and `run.snapshot_steps` select."""

    def __init__(self, loop: TrainingLoop, run: Run, reporters: Sequence[Reporter]) -> None:
        self.loop, self.run, self.reporters = loop, run, reporters
        self.checkpointer = Checkpointer(loop, run)

    def after_step(self, end: StepEnd) -> None:
        self.keep_model()
        if end.checkpoint or self.loop.state.stopped:
            self.checkpointer.save()
            for reporter in self.reporters:
                reporter.save()

    def keep_model(self) -> None:
        """Saves the model of this step if the recipe selects it."""
        step, selected = self.loop.state.step, self.run.recipe.run
        if step in selected.snapshots or (step and is_due(step, selected.snapshot_steps)):
            export_model(self.loop, self.run.steps / step_name(step), self.run.replacing)


def is_due(step: int, every: float) -> bool:
    """Returns whether a step is a multiple of `every`; never if that is 0."""
    return every > 0 and step % every == 0
