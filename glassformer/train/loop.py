"""The training loop: the model, the optimizer and the steps that change them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import torch

from glassformer import adapters
from glassformer.baselines.recurrent import truncate
from glassformer.model import Model
from glassformer.train.activation_checkpointing import Compiled, recompute_layers
from glassformer.train.batches import DataModule
from glassformer.train.checkpointing import CheckpointState
from glassformer.train.cuda_graphs import Recorded, recordable
from glassformer.train.data_parallel import apply_fsdp, apply_tensor_parallel, wrap_ddp
from glassformer.train.distributed import Worker
from glassformer.train.evaluate import evaluate
from glassformer.train.objectives import Objective, TrainingBatch
from glassformer.train.optimizers import make_optimizer
from glassformer.train.parameter_groups import unfreeze
from glassformer.train.precision import Precision
from glassformer.train.recipe import Recipe
from glassformer.train.reporter import Entry
from glassformer.train.schedules import schedule, set_rate
from glassformer.train.step import (
    Factors,
    ForwardBackward,
    Sums,
    TrainingModule,
    accumulate_gradients,
)
from glassformer.train.train_state import TrainState
from glassformer.train.weight_averaging import WeightAverage

TOKENS = " tokens"  # key in the dict of counts; no loss part has this name


@dataclass
class StepStats:
    """Results of one step, as tensors, so that the GPU is synchronized only when they are read."""

    sums: Sums
    counts: dict[str, float]
    learning_rate: float
    grad_norm: torch.Tensor
    tokens: int


class TrainingLoop:
    """The model, the optimizer and the steps that change them.

    What a step computes depends only on the recipe, the data and `state.step`.

    Args:
        recipe: The complete recipe.
        model: The model to train.
        objective: The training objective.
        data: The batches of this process.
        worker: This process and its device.
    """

    def __init__(
        self, recipe: Recipe, model: Model, objective: Objective, data: DataModule, worker: Worker
    ) -> None:
        settings = recipe.train
        self.recipe, self.settings = recipe, settings
        self.model, self.data, self.worker = model, data, worker
        self.module = TrainingModule(model, objective).to(worker.device).train()
        self.shard_plan = apply_tensor_parallel(self.module, worker, recipe)
        if settings.bptt:
            truncate(self.module, settings.bptt)
        if settings.gradient_checkpointing and not settings.compile:
            recompute_layers(self.module)
        apply_fsdp(self.module, worker, recipe)
        self.optimizer = make_optimizer(self.module, settings)
        self.schedule = schedule(settings, model.spec.last_stack.width)
        named = {
            name: parameter
            for group in self.optimizer.param_groups
            for name, parameter in zip(group["param_names"], group["params"], strict=True)
        }
        self.parameters = list(named.values())
        self.average = WeightAverage(
            named, settings.ema_decay > 0 or settings.averaging_patience > 0
        )
        self.precision = Precision(settings.precision, worker.device)
        self.precision.narrow(self.module)
        self.checkpoint = CheckpointState(
            self.module, self.optimizer, self.average, worker, self.shard_plan
        )
        self.wrapped_module = wrap_ddp(self.module, worker)
        self.forward_backward = self._make_forward_backward()
        self.state = TrainState()

    def _make_forward_backward(self) -> Callable[[TrainingBatch, Factors, bool], Sums]:
        """Returns the function that runs forward and backward on a micro-batch.

        CUDA graphs are used only without gradient accumulation, because accumulated gradients must
        not lie in memory that a replay overwrites.
        """
        settings, worker, objective = self.settings, self.worker, self.module.objective
        module: Callable[[TrainingBatch], Sums] = self.wrapped_module
        if settings.compile:
            module = Compiled(
                self.wrapped_module,
                objective,
                frugal=settings.gradient_checkpointing,
                few_shapes=worker.device.type == "cuda" and self.data.has_few_shapes,
            )
        plain = ForwardBackward(module, self.precision, worker)
        alone = worker.world_size == 1 and worker.device.type == "cuda"
        recorded = alone and settings.gradient_accumulation_steps == 1
        if recorded and not settings.gradual_unfreezing_steps and recordable(self.model):
            return Recorded(plain, objective, self.parameters)
        return plain

    def train_step(self) -> StepStats:
        """Takes one training step on all micro-batches."""
        settings, step, worker = self.settings, self.state.step, self.worker
        self.module.objective.advance(step / settings.num_training_steps)
        unfreeze(self.optimizer, settings, step)
        batches = self.data.batches(step)
        counts = self.module.counts(batches) | {TOKENS: float(sum(b.tokens for b in batches))}
        counts = worker.sum_over_ranks(counts)
        tokens = int(counts.pop(TOKENS))
        learning_rate = settings.learning_rate * self.schedule(step)
        set_rate(self.optimizer, learning_rate * self.data.relative_length(tokens))
        factors = self.module.factors(counts)
        sums = accumulate_gradients(
            self.forward_backward, batches, factors, worker, (settings.seed, step)
        )
        grad_norm = self.precision.step(self.optimizer, self.parameters, settings.max_grad_norm)
        adapters.after_step(self.model, step)
        self.optimizer.zero_grad(set_to_none=True)
        self.state.step += 1
        self.state.tokens += tokens
        self.average.update(self._average_weight())
        return StepStats(sums, counts, learning_rate, grad_norm, tokens)

    def _average_weight(self) -> float:
        """Returns the weight of the newest parameters in the weight average.

        The exponential average is bias-corrected like Adam's moments, so that the weights before
        the first step have no share. The plain mean equals the newest weights until averaging
        begins.
        """
        decay, step = self.settings.ema_decay, self.state.step
        if decay:
            return (1 - decay) / (1 - decay**step)
        return 1 / (1 + step - (self.state.averaging_start or step))

    def evaluate(self, split: str = "valid", max_batches: int | None = None) -> dict[str, float]:
        """Evaluates the averaged weights, or the current ones if there is no average.

        The model is not compiled here: without gradients, and for a last batch of another shape,
        compilation would take as long each time as many batches do.

        Args:
            split: "valid" or "test".
            max_batches: Maximum number of batches; None for all.

        Returns:
            Metric values by name.
        """
        with self.average.in_place():
            return evaluate(
                self.module,
                self.wrapped_module,
                lambda: islice(self.data.held_out_batches(split), max_batches),
                self.precision,
                self.worker,
                self.settings.seed,
            )

    def log_entry(self, stats: StepStats) -> Entry:
        """Returns the log entry of a step; all processes must call it."""
        weights = self.module.weights
        sums = {part: float(value) for part, value in stats.sums.items()}
        totals = self.worker.sum_over_ranks(sums)
        parts = {p: total / stats.counts[p] for p, total in totals.items() if stats.counts[p]}
        return {
            "step": self.state.step,
            "loss": sum(weights[part] * value for part, value in parts.items()),
            "parts": parts,
            "learning_rate": stats.learning_rate,
            "gradient": float(stats.grad_norm),
            "tokens": self.state.tokens,
        }
