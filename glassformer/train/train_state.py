"""The progress of a run: the part of a checkpoint that is not tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

KEYS_OF_0_1 = {
    "stale": "evaluations_since_best",
    "epoch": "tokens_per_epoch",
    "judged": "metric_history",
    "averaged": "averaging_start",
}
"""Keys in checkpoints of version 0.1, and their names now."""

RANDOM_CHOICES = 2
"""Version of the random choices of objectives; in version 0.1 a generator per row made them."""


@dataclass
class TrainState:
    """The progress of a run."""

    step: int = 0  # number of steps done
    tokens: int = 0  # number of tokens read
    best: float | None = None  # metric value of the best evaluation
    best_step: int = 0
    peak: float | None = None  # the best value of all, if the best model may be a later equal one
    test: dict[str, float] = field(default_factory=dict)  # test metrics of the best model
    evaluations_since_best: int = 0
    stopped: bool = False  # whether early stopping ended the run
    scaler: dict[str, Any] = field(default_factory=dict)
    tokens_per_epoch: int = 0  # to detect changed data
    tokenizer: str = ""  # its fingerprint, to detect a changed one
    metric_history: list[float] = field(default_factory=list)  # values before averaging begins
    averaging_start: int = 0  # step at which weight averaging begins; 0 until it is known
    random_choices: int = RANDOM_CHOICES  # how masks and other random choices are made

    @classmethod
    def from_checkpoint(cls, values: Mapping[str, Any]) -> TrainState:
        """Returns the state of a checkpoint, also of one that version 0.1 has written."""
        named = {KEYS_OF_0_1.get(key, key): value for key, value in values.items()}
        known = {field.name for field in fields(cls)}
        return cls(**{"random_choices": 1} | {k: v for k, v in named.items() if k in known})

    @property
    def top(self) -> float | None:
        """The best value of all evaluations; checkpoints of earlier versions have no `peak`."""
        return self.best if self.peak is None else self.peak

    def summary(self) -> dict[str, Any]:
        """Returns how the run ended, as finished.json says it."""
        return {
            "step": self.step,
            "tokens": self.tokens,
            "best": self.best,
            "best_step": self.best_step,
            "test": self.test,
            "stopped": self.stopped,
        }
