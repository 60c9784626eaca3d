"""Evaluation of a run's model on the rows that its training has held out."""

from __future__ import annotations

from itertools import islice

from glassformer.data import Records
from glassformer.evaluate.evaluate import Progress, evaluate
from glassformer.metrics.evaluation import Evaluation
from glassformer.tasks.registry import TASKS
from glassformer.tasks.task_words import verb_of
from glassformer.train.run_folder import Run

SLOW = 200  # rows of tasks that write texts
WRITING = ("translation", "summarization", "speech-recognition")
OPTIONS = {  # of the objective that the evaluation has, too
    "translation": ("source_language", "target_language"),
    "speech-recognition": ("language", "normalizer"),
}


def evaluate_run(
    run: Run, verb: str | None = None, progress: Progress | None = None
) -> Evaluation | None:
    """Returns the metrics of the run's model, with confidence intervals.

    The result is None if nothing is held out, or if its objective has no task of `evaluate`.

    Args:
        run: The run.
        verb: The task, which the objective of translations and summaries leaves open.
        progress: Wraps the iterable of answers, to display progress.

    >>> evaluate_run(gf.train("classify", "my.csv")).metrics["accuracy"]
    """
    data, objectives = run.recipe.data, run.recipe.objective
    if not data.files("validation") or len(objectives) > 1:
        return None
    task = evaluation_of(verb or objectives[0].name)
    if objectives[0].name == "regression":
        task = "regression"
    if task is None:
        return None
    records = Records(data, "validation", run.recipe.train.seed)
    limit = SLOW if task in WRITING else None
    given = objectives[0].options
    options = {name: given[name] for name in OPTIONS.get(task, ()) if given.get(name) is not None}
    return evaluate(
        run.load(),
        islice(records, limit),
        task,
        on_error="skip",
        progress=progress,
        **options,
    )


def evaluation_of(word: str) -> str | None:
    """Returns the task of `evaluate` for a task or an objective; None if there is none."""
    verb = verb_of(word)
    declared = None if verb is None else TASKS.find(verb).training
    return None if declared is None else declared.evaluation
