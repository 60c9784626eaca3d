"""The objective of a task, with its labels and the metric that decides which model is the best."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from glassformer.data.record import Record
from glassformer.errors import ConfigError, DataError
from glassformer.metrics.ner import names_entities
from glassformer.tasks.registry import TASKS
from glassformer.train.objectives.labels import label_order, label_text
from glassformer.train.task_columns import columns_of, is_list
from glassformer.train.task_labels import kind_of_labels
from glassformer.train.task_model import BaseModel

if TYPE_CHECKING:
    from glassformer.train.task_recipe import TaskOptions

GRADES = 20  # so many labels are listed in a note
GRADED = ("score", "similarity", "label", "labels", "gold_label", "is_duplicate", "rating")


@dataclass(frozen=True, kw_only=True)
class TaskObjective:
    """What is learned.

    Attributes:
        table: The [objective] table.
        columns: The file's columns by the objective's names.
        metric: The metric that decides which model is the best.
        labels: The labels of the head; empty if it has none.
        notes: Sentences on what was found.
    """

    table: dict[str, Any]
    columns: dict[str, str]
    metric: str
    labels: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)


def choose_objective(
    verb: str,
    records: Sequence[Record],
    columns: Mapping[str, str],
    base: BaseModel,
    options: TaskOptions,
) -> TaskObjective:
    """Returns the objective of a task on records.

    Args:
        verb: The task.
        records: The rows of the file.
        columns: The file's columns by the task's names.
        base: The model to start from.
        options: What the user has said.
    """
    languages = options.source_language, options.target_language
    if verb not in ("translate", "summarize") and languages != (None, None):
        raise ConfigError(f"--from and --to are for translate, not for {verb}.")
    if verb == "classify":
        return _classification(records, columns, options)
    if options.labels is not None or options.balanced:
        raise ConfigError(f"--labels and --balanced are for classify, not for {verb}.")
    declared = TASKS.find(verb)
    assert declared.training is not None
    plain = TaskObjective(
        table={"name": declared.objective},
        columns=dict(columns),
        metric=declared.training.metric,
    )
    if verb == "tag":
        return _tagging(records, plain)
    if verb in ("translate", "summarize"):
        return _rewriting(verb, plain, base, options)
    if verb == "embed" and not options.columns:
        _refuse_graded_pairs(records, columns)
    if verb == "answer" and any(not _answered(record, columns) for record in records):
        plain.table["allow_no_answer"] = True
    return plain


def _classification(
    records: Sequence[Record], columns: Mapping[str, str], options: TaskOptions
) -> TaskObjective:
    role = next(one for one in ("label", "labels", "value") if one in columns)
    said = {"labels": "several", "value": "number"}.get(role, options.labels)
    found = kind_of_labels(records, columns[role], said)
    own = {ours: theirs for ours, theirs in columns.items() if ours != role}
    own[found.column] = columns[role]
    name = f"the column {columns[role]}"
    if found.kind == "number":
        notes = [f"{name} has numbers, which are predicted as such (--labels one: as classes)."]
        return TaskObjective(
            table={"name": "regression"},
            columns=own,
            metric="pearson",
            labels=("value",),
            notes=[note[0].upper() + note[1:] for note in notes],
        )
    labels = tuple(sorted(found.counts, key=label_order(found.counts)))
    if len(labels) < 2:
        raise DataError(
            f"{name[0].upper() + name[1:]} has the one label {labels[0]!r} in all rows; name the "
            "column with the labels: --label NAME."
            if labels
            else f"{name[0].upper() + name[1:]} is empty; name the column with the labels: "
            "--label NAME."
        )
    if len(labels) > max(2, 0.5 * len(records)) and options.labels is None:
        if all(re.fullmatch(r"-?\d+,\d+", label) for label in labels):
            raise DataError(
                f"{name[0].upper() + name[1:]} has numbers with decimal commas, such as "
                f"{labels[0]}; write them with points, or give --labels one if they are classes."
            )
        raise DataError(
            f"{name[0].upper() + name[1:]} has {len(labels):,} different labels in "
            f"{len(records):,} rows; name the column with the labels by --label NAME, or confirm "
            "them with --labels one."
        )
    table: dict[str, Any] = {"name": "classification"}
    notes, metric = [], "accuracy"
    if found.kind == "several":
        table["multi_label"], metric = True, "micro_f1"
        notes.append(f"{name} has several labels per text (--labels one: only one).")
    elif all(label.lstrip("-").isdecimal() for label in labels):
        shown = ", ".join(labels[:GRADES])
        notes.append(f"the numbers {shown} are learned as classes (--labels number: as numbers).")
    if options.balanced:
        table["class_weights"] = found.weights()
        metric = "f1" if found.kind == "one" else "macro_f1"
    elif found.rare is not None:
        rarest, few, many = found.rare
        notes.append(
            f"{many:,} rows have the most frequent label and {few:,} the label {rarest!r} "
            "(--balanced: each label counts equally)."
        )
    said_notes = [note[0].upper() + note[1:] for note in notes]
    return TaskObjective(table=table, columns=own, metric=metric, labels=labels, notes=said_notes)


def _tagging(records: Sequence[Record], plain: TaskObjective) -> TaskObjective:
    words, tags = plain.columns["words"], plain.columns["tags"]

    def is_tagged(record: Record) -> bool:
        if not is_list(record.get(words)) or not is_list(record.get(tags)):
            return False
        return all(isinstance(word, str) for word in record[words])

    wrong = next((record for record in records if not is_tagged(record)), None)
    if wrong is not None:
        raise DataError(
            f"{wrong['where']} has no list of words in {words} and of tags in {tags}; tag reads "
            "CoNLL files (a word and its tag per line, an empty line between sentences; "
            "--format conll), or JSON lines with such lists."
        )
    found = {label_text(tag) for record in records for tag in record[tags]}
    labels = tuple(sorted(found, key=label_order(found)))
    letters = all(len(word) == 1 for record in records[:100] for word in record[words])
    table = {**plain.table, "split": "characters"} if letters else plain.table
    metric = "f1" if names_entities(labels) else "accuracy"
    return TaskObjective(table=table, columns=plain.columns, metric=metric, labels=labels)


def _rewriting(
    verb: str, plain: TaskObjective, base: BaseModel, options: TaskOptions
) -> TaskObjective:
    both = base.spec.is_encoder_decoder
    table: dict[str, Any] = {"name": "sequence-to-sequence" if both else "continuation"}
    codes = base.languages if both else ()
    given = {"source_language": options.source_language, "target_language": options.target_language}
    if verb == "translate" and codes and options.target_language is None:
        raise ConfigError(
            f"{base.name} has several target languages; choose one: --to {', '.join(codes)}."
        )
    table |= {name: code for name, code in given.items() if code is not None and both}
    return TaskObjective(table=table, columns=plain.columns, metric=plain.metric)


def _refuse_graded_pairs(records: Sequence[Record], columns: Mapping[str, str]) -> None:
    """Raises an error if a column says which pairs are similar, because all are learned so."""
    graded = [name for name in columns_of(records[:1]) if name.strip().lower() in GRADED]
    if graded:
        named = f"--text {columns['text']} --column positive={columns['positive']}"
        raise DataError(
            f"The column {graded[0]} may say how similar the texts of a row are, and embed learns "
            f"that those of every row are; keep the rows with similar texts, or say {named}."
        )


def _answered(record: Record, columns: Mapping[str, str]) -> bool:
    answers = record.get(columns["answers"])
    texts = answers.get("text") if isinstance(answers, Mapping) else answers
    return bool(texts)
