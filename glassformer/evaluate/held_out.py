"""Evaluation of a run's model on the rows that its training has held out."""

from __future__ import annotations

from itertools import islice

from glassformer.data import Records
from glassformer.evaluate.evaluate import Progress, evaluate
from glassformer.evaluate.evaluator import Evaluation
from glassformer.tasks.registry import TASKS
from glassformer.tasks.task_words import verb_of
from glassformer.train.run_folder import Run

SLOW = 200  # rows of tasks that write texts
WRITING = ("translation", "summarization")


def evaluate_run(run: Run, progress: Progress | None = None) -> Evaluation | None:
    """Returns the metrics of the run's model, with confidence intervals.

    The result is None if nothing is held out, or if its objective has no task of `evaluate`.

    >>> evaluate_run(gf.train("classify", "my.csv")).metrics["accuracy"]
    """
    data, objectives = run.recipe.data, run.recipe.objective
    if not data.files("validation") or len(objectives) > 1:
        return None
    task = evaluation_of(objectives[0].name)
    if task is None:
        return None
    records = Records(data, "validation", run.recipe.train.seed)
    limit = SLOW if task in WRITING else None
    return evaluate(run.load(), islice(records, limit), task, on_error="skip", progress=progress)


def evaluation_of(objective: str) -> str | None:
    """Returns the task of `evaluate` for what an objective learns; None if there is none."""
    if objective == "regression":
        return objective
    verb = verb_of(objective)
    declared = None if verb is None else TASKS.find(verb).training
    return None if declared is None else declared.evaluation
