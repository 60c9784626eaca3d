"""The training loop: takes steps, logs, evaluates, saves checkpoints and stops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from glassformer import adapters
from glassformer.baselines.recurrent import truncate
from glassformer.errors import DataError, GlassformerError, LoadError
from glassformer.model import Model
from glassformer.train.activation_checkpointing import Compiled, recompute_layers
from glassformer.train.cuda_graphs import Recorded, recordable
from glassformer.train.data_feed import DataFeed
from glassformer.train.data_parallel import (
    apply_fsdp,
    apply_tensor_parallel,
    gather_full_state,
    wrap_ddp,
)
from glassformer.train.distributed import Worker
from glassformer.train.estimate import RunEstimate
from glassformer.train.evaluate import chosen, evaluate, is_better
from glassformer.train.interrupt import InterruptHandler, TrainingInterrupted
from glassformer.train.objectives import Objective, TrainingBatch
from glassformer.train.optimizers import make_optimizer
from glassformer.train.parameter_groups import unfreeze
from glassformer.train.precision import Precision
from glassformer.train.recipe import Recipe
from glassformer.train.reporter import Entry, Reporter
from glassformer.train.run_folder import Run
from glassformer.train.schedules import schedule, set_rate
from glassformer.train.state import CheckpointState, name_of
from glassformer.train.step import (
    Factors,
    ForwardBackward,
    Sums,
    TrainingModule,
    accumulate_gradients,
)
from glassformer.train.throughput import Throughput
from glassformer.train.weight_averaging import WeightAverage, has_settled

Writing = Callable[[Path], AbstractContextManager[Path]]
TOKENS = " tokens"  # key in the dict of counts; no loss part has this name


@dataclass
class TrainState:
    """The part of a checkpoint that is not tensors."""

    step: int = 0  # number of steps done
    tokens: int = 0  # number of tokens read
    best: float | None = None  # metric value of the best evaluation
    best_step: int = 0
    test: dict[str, float] = field(default_factory=dict)  # test metrics of the best model
    stale: int = 0  # evaluations since the best one
    stopped: bool = False  # whether early stopping ended the run
    scaler: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0  # tokens per epoch, to detect changed data
    judged: list[float] = field(default_factory=list)  # metric values before averaging begins
    averaged: int = 0  # step at which weight averaging begins; 0 until it is known


@dataclass
class StepStats:
    """Results of one step, as tensors, so that the GPU is synchronized only when they are read."""

    sums: Sums
    counts: dict[str, float]
    rate: float
    gradient: torch.Tensor
    tokens: int


class Loop:
    """The state of a training run and the code that advances it step by step.

    What a step computes depends only on the recipe, the data and `notes.step`.
    """

    def __init__(
        self, recipe: Recipe, model: Model, objective: Objective, feed: DataFeed, place: Worker
    ) -> None:
        settings = recipe.train
        self.recipe, self.settings = recipe, settings
        self.model, self.feed, self.place = model, feed, place
        self.task = TrainingModule(model.net, objective).to(place.device).train()
        self.arranged = apply_tensor_parallel(self.task, place, recipe)
        if settings.bptt:
            truncate(self.task, settings.bptt)
        if settings.gradient_checkpointing and not settings.compile:
            recompute_layers(self.task)
        apply_fsdp(self.task, place, recipe)
        self.optimizer = make_optimizer(self.task, settings)
        self.factor = schedule(settings, model.spec.last_stack.width)
        named = {
            name: parameter
            for group in self.optimizer.param_groups
            for name, parameter in zip(group["param_names"], group["params"], strict=True)
        }
        self.parameters = list(named.values())
        self.average = WeightAverage(
            named, settings.ema_decay > 0 or settings.averaging_patience > 0
        )
        self.precision = Precision(settings.precision, place.device)
        self.precision.narrow(self.task)
        self.state = CheckpointState(self.task, self.optimizer, self.average, place, self.arranged)
        self.engine = wrap_ddp(self.task, place)
        self.learn = self._pass()
        self.notes = TrainState()

    def _pass(self) -> Callable[[TrainingBatch, Factors, bool], Sums]:
        """Returns the function that runs forward and backward on a micro-batch.

        CUDA graphs are used only without gradient accumulation, because accumulated gradients must
        not lie in memory that a replay overwrites.
        """
        settings, place, objective = self.settings, self.place, self.task.objective
        alone = place.world == 1 and place.device.type == "cuda"
        recorded = alone and settings.gradient_accumulation_steps == 1
        if settings.compile:
            frugal = settings.gradient_checkpointing
            compiled = Compiled(self.engine, objective, frugal=frugal, recorded=recorded)
            return ForwardBackward(compiled, self.precision, place)
        plain = ForwardBackward(self.engine, self.precision, place)
        if recorded and not settings.gradual_unfreezing_steps and recordable(self.model.net):
            return Recorded(plain, objective, self.parameters)
        return plain

    def take_step(self) -> StepStats:
        """Takes one training step on all micro-batches."""
        settings, step, place = self.settings, self.notes.step, self.place
        objective = self.task.objective
        objective.advance(step / settings.num_training_steps)
        unfreeze(self.optimizer, settings, step)
        batches = self.feed.batches(step)
        own = self.task.counts(batches) | {TOKENS: float(sum(batch.tokens for batch in batches))}
        counts = place.total(own)
        tokens = int(counts.pop(TOKENS))
        rate = settings.learning_rate * self.factor(step)
        set_rate(self.optimizer, rate * self.feed.stretch(tokens))
        factors = self.task.factors(counts)
        sums = accumulate_gradients(self.learn, batches, factors, place, (settings.seed, step))
        gradient = self.precision.step(self.optimizer, self.parameters, settings.max_grad_norm)
        adapters.after_step(self.model.net, step)
        self.optimizer.zero_grad(set_to_none=True)
        self.notes.step += 1
        self.notes.tokens += tokens
        self.average.update(self.newest)
        return StepStats(sums, counts, rate, gradient, tokens)

    @property
    def newest(self) -> float:
        """The weight of the newest parameters in the weight average.

        The exponential average is bias-corrected like Adam's moments, so that the weights before
        the first step have no share. The plain mean equals the newest weights until averaging
        begins.
        """
        if self.settings.ema_decay:
            return (1 - self.settings.ema_decay) / (1 - self.settings.ema_decay**self.notes.step)
        since = self.notes.averaged or self.notes.step
        return 1 / (1 + self.notes.step - since)

    def evaluate(self, split: str = "valid", most: int | None = None) -> dict[str, float]:
        """Evaluates the averaged weights, or the current ones if there is no average.

        The model is not compiled here: without gradients, and for a last batch of another shape,
        compilation would take as long each time as many batches do.

        Args:
            split: "valid" or "test".
            most: Maximum number of batches; None for all.

        Returns:
            Metric values by name.
        """
        with self.average.in_place():
            return evaluate(
                self.task,
                self.engine,
                lambda: islice(self.feed.sweep(split), most),
                self.precision,
                self.place,
                self.settings.seed,
            )

    def check_metric(self) -> None:
        """Checks before the first step that evaluation yields `train.metric_for_best_model`."""
        if "valid" in self.feed.judges and self.settings.metric_for_best_model != "loss":
            chosen(self.evaluate(most=1), self.settings.metric_for_best_model)

    def export_model(self, folder: Path, writing: Writing = nullcontext) -> None:
        """Saves the model in the published layout, or a trained adapter alone, in peft's layout.

        Args:
            folder: Folder to save to.
            writing: Returns a context manager that yields the temporary path to write to first.
        """

        def save() -> None:
            with writing(folder) as place:
                if self.recipe.adapter is None:
                    self.model.save(place)
                else:
                    self.model.save_adapter(place)
                for name, companion in self.task.objective.companions().items():
                    companion.save(place / name)

        with self.average.in_place(), gather_full_state(self.task, self.arranged, self.place.main):
            try:
                self.place.first(save)
            except GlassformerError as error:
                raise LoadError(
                    f"{error} Checkpoints of the run are whole: make room or get permission, and "
                    "the same command goes on."
                ) from None

    def keep(self, run: Run) -> None:
        """Saves the model of this step if `run.snapshots` or `run.snapshot_steps` selects it."""
        step, asked = self.notes.step, run.recipe.run
        if step in asked.snapshots or (step and due(step, asked.snapshot_steps)):
            self.export_model(run.steps / name_of(step), run.replacing)

    def resume(self, run: Run) -> None:
        """Restores the state of the last checkpoint; raises an error if the data has changed."""
        self.notes = TrainState(**self.state.load(run.state))
        if self.notes.epoch != self.feed.tokens:
            raise DataError(
                f"The data had {self.notes.epoch:,} tokens when {run.folder} was begun and has "
                f"{self.feed.tokens:,} now; put it back, or --restart begins anew."
            )
        self.precision.restore(self.notes.scaler)
        run.cut(self.notes.step)

    def save(self, run: Run) -> None:
        """Saves a checkpoint."""
        self.notes.scaler = self.precision.state()
        self.notes.epoch = self.feed.tokens
        notes = asdict(self.notes)
        run.sync()
        self.state.save(run.manifest, notes.pop("step"), notes)

    def go(self, run: Run, plan: RunEstimate, reporters: Sequence[Reporter]) -> None:
        """Trains from the current step to the end of the run."""
        settings, notes = self.settings, self.notes
        clock = Throughput(self.place, plan, notes.tokens)
        if not notes.step:
            self.keep(run)
        with InterruptHandler() as watch:
            while notes.step < settings.num_training_steps and not notes.stopped:
                taken = self.take_step()
                asked = any(self.place.gathered(watch.asked))  # all processes agree
                last = notes.step == settings.num_training_steps
                logs = due(notes.step, run.recipe.run.logging_steps) or notes.step == 1 or last
                saves = due(notes.step, settings.save_steps) or last or asked
                if logs or saves:
                    entry = self.entry(taken)
                    self.check(entry)
                    if logs:
                        entry["speed"] = clock.look(notes.tokens)
                        run.log(entry)
                        for reporter in reporters:
                            reporter.step(entry)
                with clock.stopped():
                    if due(notes.step, settings.eval_steps) or last:
                        self.judge(run, reporters)
                    self.keep(run)
                    if saves or notes.stopped:
                        self.save(run)
                        for reporter in reporters:
                            reporter.save()
                if asked and not (last or notes.stopped):
                    raise TrainingInterrupted(
                        f"Stopped after step {notes.step} of {settings.num_training_steps}, which "
                        f"is saved in {run.folder}; the same command goes on from there."
                    )

    def ending(self) -> dict[str, Any]:
        """Returns a summary of how the run ended."""
        notes = asdict(self.notes)
        said = ("step", "tokens", "best", "best_step", "test", "stopped")
        return {key: notes[key] for key in said}

    def entry(self, taken: StepStats) -> Entry:
        """Returns the log entry of a step."""
        sums, weights = taken.sums, self.task.weights
        totals = self.place.total({part: float(value) for part, value in sums.items()})
        parts = {p: total / taken.counts[p] for p, total in totals.items() if taken.counts[p]}
        return {
            "step": self.notes.step,
            "loss": sum(weights[part] * value for part, value in parts.items()),
            "parts": parts,
            "learning_rate": taken.rate,
            "gradient": float(taken.gradient),
            "tokens": self.notes.tokens,
        }

    def check(self, entry: Entry) -> None:
        """Raises an error if the loss is not finite.

        In float16 a step may overflow; it is then skipped and the loss scale is changed.
        """
        if not math.isfinite(entry["loss"]) and self.settings.precision != "float16":
            raise GlassformerError(
                f"The loss of step {entry['step']} is {entry['loss']}; lower train.learning_rate, "
                "lengthen train.warmup_steps or set train.max_grad_norm, and begin anew with "
                "--restart."
            )

    def judge(self, run: Run, reporters: Sequence[Reporter]) -> None:
        """Evaluates, saves the model if it is the best so far, and decides on early stopping.

        Each model that becomes the best is also evaluated on the test files, so that the test
        metrics are those of the best model wherever the run ends. Test metrics influence no
        decision.
        """
        notes, name, judges = self.notes, self.settings.metric_for_best_model, self.feed.judges
        if "valid" not in judges:
            if "test" in judges and notes.step == self.settings.num_training_steps:
                notes.test = self.evaluate("test")
            return
        found = self.evaluate()
        entry: Entry = {"step": notes.step, "valid": found}
        value = chosen(found, name)
        if self.settings.averaging_patience and not notes.averaged:
            if has_settled(name, notes.judged, value, self.settings.averaging_patience):
                notes.averaged = notes.step
            notes.judged.append(value)
        better = is_better(name, value, notes.best)
        if better and "test" in judges:
            entry["test"] = notes.test = self.evaluate("test")
        run.log(entry)
        if better:
            notes.best, notes.best_step, notes.stale = value, notes.step, 0
            self.export_model(run.best, run.replacing)
        else:
            notes.stale += 1
            notes.stopped = 0 < self.settings.early_stopping_patience <= notes.stale
        for reporter in reporters:
            reporter.valid(entry)


def due(step: int, every: int) -> bool:
    """Returns whether a step is a multiple of `every`; never if that is 0."""
    return every > 0 and step % every == 0
