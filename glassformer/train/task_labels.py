"""Detection of the kind of labels: classes, several classes per text, or numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from glassformer.data.record import Record
from glassformer.train.objectives.classification import is_list_text, split_labels
from glassformer.train.objectives.labels import label_text
from glassformer.train.task_columns import is_list

MOST_GRADES = 20  # so many different whole numbers may be classes, such as stars
FEWEST_EACH = 3  # rows per number, from which on numbers from 0 or 1 are classes
RARE = 10  # a label is rare if another has so many times its rows


@dataclass(frozen=True)
class LabelKind:
    """What the labels are.

    Attributes:
        kind: One class per text, several, or numbers.
        counts: The number of rows of each class, the most frequent first; empty for numbers.
    """

    kind: Literal["one", "several", "number"]
    counts: Counter[str]

    @property
    def objective(self) -> str:
        return "regression" if self.kind == "number" else "classification"

    @property
    def column(self) -> str:
        """The objective's name of the column."""
        return {"one": "label", "several": "labels", "number": "value"}[self.kind]

    @property
    def rare(self) -> tuple[str, int, int] | None:
        """A label with few rows, its count, and the greatest count; None if none is rare."""
        if self.kind == "number" or len(self.counts) < 2:
            return None
        most = self.counts.most_common()
        (_, first), (name, last) = most[0], most[-1]
        return (name, last, first) if first >= RARE * last else None

    def weights(self) -> dict[str, float]:
        """Returns weights by which each class counts equally in the loss, with a mean of 1."""
        total, classes = sum(self.counts.values()), len(self.counts)
        return {
            name: round(total / (classes * count), 4) for name, count in sorted(self.counts.items())
        }


def kind_of_labels(records: Sequence[Record], column: str, kind: str | None = None) -> LabelKind:
    """Returns the kind of the labels in a column.

    Lists, and texts in which labels of other rows are joined by a separator, are several labels.
    Numbers are classes if they are few, or count from 0 or 1 with several rows each.

    Args:
        records: The records.
        column: The column of the labels.
        kind: "one", "several" or "number", if the user has said it.
    """
    values = [record[column] for record in records if record.get(column) not in (None, "")]
    if kind is None:
        kind = "several" if _are_several(values) else "number" if _are_numbers(values) else "one"
    if kind == "number":
        return LabelKind("number", Counter())
    if kind == "several":
        return LabelKind("several", Counter(name for value in values for name in split(value)))
    return LabelKind("one", Counter(map(label_text, values)))


def split(value: Any) -> list[str]:
    """Returns the labels of a value that has several."""
    if is_list(value):
        return [label_text(one) for one in value]
    return [label_text(one) for one in split_labels(label_text(value))]


def _are_several(values: Sequence[Any]) -> bool:
    if any(is_list(value) for value in values):
        return True
    texts = [str(value) for value in values]
    if texts and all(map(is_list_text, texts)):
        return True
    joined = [text for text in texts if len(split(text)) > 1]
    if len(joined) < 0.02 * len(texts) or not joined:
        return False
    whole, parts = set(texts), {name for text in texts for name in split(text)}
    alone = whole - set(joined)
    return len(parts) < len(whole) and (not alone or bool(parts & alone))


def _are_numbers(values: Sequence[Any]) -> bool:
    try:
        numbers = [float(value) for value in values if not isinstance(value, bool)]
    except (TypeError, ValueError):
        return False
    if len(numbers) < len(values) or not numbers or not all(map(math.isfinite, numbers)):
        return False
    if any(number != int(number) for number in numbers):
        return True
    different = {int(number) for number in numbers}
    counting = min(different) in (0, 1) and max(different) - min(different) < len(different)
    if counting and len(numbers) >= FEWEST_EACH * len(different):
        return False
    return len(different) > MOST_GRADES
