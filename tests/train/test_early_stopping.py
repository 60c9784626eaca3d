"""The best evaluation, the end of a run without better ones, and the state of older checkpoints."""

from __future__ import annotations

import math
from dataclasses import asdict

import pytest

from glassformer.errors import ConfigError
from glassformer.train.early_stopping import EarlyStopping, is_better, metric_value
from glassformer.train.train_state import TrainState


def evaluated(metric: str, patience: int, values: list[float]) -> TrainState:
    stopping, state = EarlyStopping(metric, patience), TrainState()
    for value in values:
        state.step += 10
        stopping.update(state, value)
    return state


def test_lower_losses_and_higher_scores_are_better():
    assert is_better("loss", 1.0, 2.0) and not is_better("loss", 2.0, 1.0)
    assert is_better("loss.lm", 1.0, 2.0) and is_better("accuracy", 2.0, 1.0)
    assert is_better("f1", 0.0, None) and is_better("f1", 0.0, math.nan)
    assert not is_better("f1", math.nan, None) and not is_better("loss", 1.0, 1.0)


def test_it_stops_after_as_many_evaluations_without_a_better_one():
    state = evaluated("loss", 2, [3.0, 2.0, 2.5])
    assert (state.best, state.best_step, state.evaluations_since_best) == (2.0, 20, 1)
    assert not state.stopped
    assert evaluated("loss", 2, [3.0, 2.0, 2.5, 2.0]).stopped
    assert not evaluated("loss", 0, [1.0] + [2.0] * 9).stopped
    state = evaluated("accuracy", 2, [0.5, 0.4, 0.6])
    assert (state.best_step, state.evaluations_since_best, state.stopped) == (30, 0, False)


def test_of_values_within_the_tolerance_the_last_is_the_best_and_they_do_not_drift():
    stopping, state = EarlyStopping("accuracy", 4, tolerance=0.07), TrainState()
    for value in (0.5, 0.6, 0.56, 0.54, 0.5):
        state.step += 10
        stopping.update(state, value)
    assert (state.best, state.best_step, state.top) == (0.54, 40, 0.6)  # 0.5 is near 0.54 alone
    assert (state.evaluations_since_best, state.stopped) == (3, False)
    older = TrainState.from_checkpoint({"best": 0.6, "best_step": 20})
    assert older.top == 0.6 and stopping.is_best(older, 0.56) and not stopping.is_best(older, 0.5)
    stopping, state = EarlyStopping("accuracy", 2, tolerance=0.2), TrainState()
    for value in (0.0, 0.0, 0.0, 0.0):  # nothing of few rows is right yet
        stopping.update(state, value)
    assert not state.stopped


def test_a_metric_that_evaluation_does_not_give_is_named():
    assert metric_value({"loss": 1.0, "f1": 0.5}, "f1") == 0.5
    with pytest.raises(ConfigError, match="'recall', and evaluation gives loss, f1"):
        metric_value({"loss": 1.0, "f1": 0.5}, "recall")


def test_the_state_of_a_checkpoint_of_version_0_1_is_read():
    old = {
        "step": 10,
        "tokens": 3184,
        "best": 3.5,
        "best_step": 8,
        "test": {},
        "stale": 2,
        "stopped": False,
        "scaler": {},
        "epoch": 1303,
        "judged": [4.0, 3.5],
        "averaged": 7,
    }
    state = TrainState.from_checkpoint(old)
    assert (state.evaluations_since_best, state.tokens_per_epoch) == (2, 1303)
    assert (state.metric_history, state.averaging_start) == ([4.0, 3.5], 7)
    assert TrainState.from_checkpoint(asdict(state)) == state
