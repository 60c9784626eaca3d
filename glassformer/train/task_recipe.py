"""The recipe of a task on a user's file: `glassformer train classify my.csv`.

The file and the model determine the [data], [model] and [objective] tables, and their sizes the
[train] table. The result is an ordinary recipe, which the trainer runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from glassformer.errors import ConfigError, DataError
from glassformer.metrics.registry import find_metric
from glassformer.spec import AudioFramesSpec
from glassformer.tasks.registry import TrainingData
from glassformer.tasks.task_words import find_task
from glassformer.text.unknown import LIMIT
from glassformer.train.recipe_text import override
from glassformer.train.task_columns import SAMPLE, choose_columns, columns_of
from glassformer.train.task_data import TaskFiles, read_files, wanted
from glassformer.train.task_languages import check_languages, columns_of_languages
from glassformer.train.task_model import BaseModel
from glassformer.train.task_objective import TaskObjective, choose_objective
from glassformer.train.task_settings import PATIENCE, Workload, train_settings

BASES = {"generate": "zoo:stories", "translate": "zoo:translator", "summarize": "zoo:translator"}
USUAL_BASE = "zoo:encoder"
FEWEST = 10  # rows, below which none are held out
HELD_OUT = 0.1
TEXTS = 100  # rows in which unknown characters are counted
FEW_HELD_OUT = 200  # rows, below which close values of a metric are mostly chance


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """The options of a task run besides the task and the files; None is chosen automatically.

    Attributes:
        base: The model to start from.
        out: The run folder.
        columns: The names of the task's columns in the file.
        labels: The kind of labels, if the file does not determine it.
        balanced: Whether the loss is weighted so that all labels count equally.
        source_language, target_language: The languages of a translation, as in the tokenizer.
        validation: Files, or the fraction of rows to hold out; 0 for no evaluation.
        test: Files to evaluate the best model on.
        lora: Whether to train a LoRA adapter and the new head instead of all weights.
        epochs: Passes over the data.
        max_steps: The number of steps, instead of epochs.
        learning_rate: The maximum learning rate.
        batch_size: Rows per step; 0 is chosen automatically.
        seed: The random seed.
        format, delimiter, encoding: How the files are written.
        on_error: "stop" at an invalid row, or "skip" it.
        settings: Further settings of the recipe, as `section.key=value`.
    """

    base: str | None = None
    out: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: Literal["one", "several", "number"] | None = None
    balanced: bool = False
    source_language: str | None = None
    target_language: str | None = None
    validation: str | Sequence[str] | float | None = None
    test: str | Sequence[str] | None = None
    lora: bool = False
    epochs: float | None = None
    max_steps: int | None = None
    learning_rate: float | None = None
    batch_size: int = 0
    seed: int = 0
    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    on_error: Literal["stop", "skip"] = "stop"
    settings: Sequence[str] = ()


@dataclass(frozen=True)
class TaskRecipe:
    """The tables of a recipe, without the defaults, and sentences on what was chosen."""

    verb: str
    tables: dict[str, Any]
    notes: tuple[str, ...]


def make_task_recipe(task: str, files: Sequence[str], options: TaskOptions) -> TaskRecipe:
    """Returns the recipe of a task on files.

    Args:
        task: The verb, or another word for it.
        files: Files or patterns, or a folder of texts.
        options: What the user has said.
    """
    verb, declared = find_task(task)
    training = declared.training
    if training is None:
        raise ConfigError(f"{verb} is trained by a recipe; `glassformer train recipe.toml`.")
    if options.epochs is not None and options.max_steps is not None:
        raise ConfigError("--epochs or --max-steps: give one.")
    given = read_files(verb, training, files, options)
    columns = _columns(verb, given, training, options)
    if verb == "translate" and options.target_language is not None:
        check_languages(given.first, given.records, columns, options.target_language)
    base = BaseModel(_base(verb, options))
    chosen = choose_objective(verb, given.records, columns, base, options)
    model, about_model = base.settings(declared.head, verb, chosen.labels)
    held_out, about_data = _held_out(given, options)
    data = {**given.settings, **held_out}
    renamed = {ours: theirs for ours, theirs in chosen.columns.items() if ours != theirs}
    if renamed:
        data["columns"] = renamed
    tables: dict[str, Any] = {"model": model, "data": data, "objective": chosen.table}
    tables["train"] = _train(given, base, chosen, options, evaluated=bool(held_out))
    if options.lora:
        tables["adapter"] = {"type": "lora"}
    tables["run"] = {"out": options.out or f"runs/{verb}"}
    for word in options.settings:
        override(tables, word)
    about_data += [*_unread(given, columns), *_unknown(given, columns, base)]
    return TaskRecipe(verb, tables, (*given.notes, *about_data, *chosen.notes, about_model))


def _unread(given: TaskFiles, columns: Mapping[str, str]) -> list[str]:
    """Returns a note on the columns of the user that are not read."""
    there = columns_of(given.records[:SAMPLE]) if given.has_names else []
    others = [name for name in there if name.strip() and name not in columns.values()]
    return [f"Columns of {given.first} that are not read: {', '.join(others)}."] if others else []


def _unknown(given: TaskFiles, columns: Mapping[str, str], base: BaseModel) -> list[str]:
    """Returns a note if the vocabulary of the model does not know the letters of the texts."""
    if base.tokenizer is None:
        return []
    values = [record.get(name) for record in given.records[:TEXTS] for name in columns.values()]
    lists = [list(value) if isinstance(value, list | tuple) else [value] for value in values]
    texts = " ".join(word for words in lists for word in words if isinstance(word, str))
    share = base.tokenizer.unknown_ratio(texts)
    if share <= LIMIT:
        return []
    return [
        f"{share:.0%} of the characters are unknown to the vocabulary of {base.name}, so it learns "
        "little from these texts; start from a model of their language (--base)."
    ]


def _base(verb: str, options: TaskOptions) -> str:
    """Returns the model to start from."""
    if options.base is None and verb == "transcribe":
        raise ConfigError(
            "transcribe starts from a model of speech; name one, such as a folder of Whisper: "
            "--base whisper-tiny."
        )
    return options.base or BASES.get(verb, USUAL_BASE)


def _columns(
    verb: str, given: TaskFiles, training: TrainingData, options: TaskOptions
) -> dict[str, str]:
    """Returns the columns of the file by their names in the task."""
    if given.has_names:
        records, named = given.records[:SAMPLE], dict(options.columns)
        if verb == "translate":
            sides = {"source": options.source_language, "target": options.target_language}
            named = {**columns_of_languages(columns_of(records), sides), **named}
        return choose_columns(given.first, records, training, named)
    form = given.settings["format"]
    if options.columns:
        raise ConfigError(
            f"{given.first} is read as {form}, which has no columns to name; "
            "leave --text, --label and --column out, or give another --format."
        )
    there = columns_of(given.records[:1])
    if any(role not in there for role in training.columns):
        raise DataError(
            f"{given.first} is read as {form}, which has {', '.join(there)}, and {verb} learns "
            f"from {' and '.join(training.columns)}; give another --format{wanted(verb)}.",
            path=given.first,
        )
    return {role: role for role in (*training.columns, *training.optional)}


def _held_out(given: TaskFiles, options: TaskOptions) -> tuple[dict[str, Any], list[str]]:
    """Returns the held-out data as keys of the [data] table."""
    found: dict[str, Any] = {} if options.test is None else {"test": options.test}
    said = options.validation
    if not isinstance(said, int | float | None):
        return {**found, "validation": said}, []
    if said == 0:
        return found, []
    if said is None and given.rows < FEWEST:
        return found, [
            f"{given.rows} rows are too few to hold some out, so nothing is evaluated; "
            "--validation names a file."
        ]
    return {**found, "validation": HELD_OUT if said is None else float(said)}, []


def _train(
    given: TaskFiles,
    base: BaseModel,
    chosen: TaskObjective,
    options: TaskOptions,
    *,
    evaluated: bool,
) -> dict[str, Any]:
    stack = base.spec.last_stack
    encoder = base.spec.encoder
    tokens = min(given.longest, stack.context_length or given.longest)
    if encoder is not None and isinstance(encoder.embed, AudioFramesSpec):
        tokens += encoder.embed.position.length  # every sound is padded to this length
    work = Workload(
        rows=given.rows,
        tokens=tokens,
        parameters=base.parameters,
        width=stack.width,
        layers=len(stack.order),
    )
    settings = train_settings(work, lora=options.lora, batch_size=options.batch_size)
    if options.max_steps is not None:
        del settings["epochs"]
        settings["max_steps"] = options.max_steps
    if options.epochs is not None:
        settings["epochs"] = options.epochs
    if options.learning_rate is not None:
        settings["learning_rate"] = options.learning_rate
    if evaluated:
        share = HELD_OUT if options.validation is None else options.validation
        held_out = given.rows * share if isinstance(share, int | float) else FEW_HELD_OUT
        settings["metric_for_best_model"] = chosen.metric
        if held_out < FEW_HELD_OUT and chosen.metric == "pearson":
            settings["metric_for_best_model"] = "loss"
        elif held_out < FEW_HELD_OUT and not find_metric(chosen.metric).smaller_is_better:
            settings["metric_tolerance"] = standard_error(held_out)
        settings["load_best_model_at_end"] = True
        settings["early_stopping_patience"] = PATIENCE
    return {**settings, "seed": options.seed}


def standard_error(rows: float) -> float:
    """Returns the largest standard error of a proportion of so many rows."""
    return round(0.5 / math.sqrt(max(rows, 1.0)), 3)
