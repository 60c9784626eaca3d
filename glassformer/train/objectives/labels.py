"""Labels of classification heads: from names in the data to output indices.

They are those of the model's config.json (`id2label`). A recipe can list them in [model]; otherwise
`find_labels` collects them from the data before the model is built.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from glassformer.data.record import Record, invalid, refused
from glassformer.errors import ConfigError, DataError
from glassformer.model import Model
from glassformer.tasks.task_settings import keep
from glassformer.train.objectives.registry import find_objective
from glassformer.train.objectives.tally import Tally


def find_labels(
    name: str, records: Iterable[Record], *, skip: bool = False, multi_label: bool = False
) -> tuple[str, ...]:
    """Returns all labels of an objective in the records, sorted (numbers by value).

    The result is empty if the objective's class has no `labels_of`, which returns the labels of a
    record.

    Args:
        name: Name of the objective.
        records: The records of the training data.
        skip: Whether to leave out a record whose labels are invalid instead of raising its error.
        multi_label: Whether a text may have several labels, which classification may be told.
    """
    labels_of: Callable[..., Iterable[str]] | None
    labels_of = getattr(find_objective(name), "labels_of", None)
    if labels_of is None:
        return ()
    found: set[str] = set()
    options = {"multi_label": True} if multi_label else {}
    for record in records:
        try:
            found.update(labels_of(record, **options))
        except DataError as error:
            if not skip:
                raise refused(error, record) from None
    return tuple(sorted(found, key=label_order(found)))


def label_order(labels: Collection[str]) -> Callable[[str], int] | None:
    """Returns the key by which labels are sorted: numbers by value, others by the alphabet."""
    numbers = all(label.lstrip("-").isdecimal() for label in labels)
    return int if numbers else None


def label_text(value: Any) -> str:
    """Returns the name of a label.

    JSON and CSV may have a number or a string for the same one. Space around a name does not
    belong to it, and the Unicode form is the composed one (NFC).
    """
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return unicodedata.normalize("NFC", str(value)).strip()


def label_of(value: Any, record: Record) -> str:
    """Returns the name of a record's label; raises an error if there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise invalid(record, "there is no label")
    if isinstance(value, list | tuple | Mapping):
        raise invalid(record, f"the label is {value!r:.40}, and not a text or a number")
    name = label_text(value)
    if not name:
        raise invalid(record, "the label is empty")
    return name


class Labels:
    """The output indices of a model's labels, and how often each was used, in `tally`.

    If several heads have different labels, `given` are those of this objective.
    """

    def __init__(self, model: Model, head: str, given: Sequence[str], tally: Tally) -> None:
        self.names: Sequence[str] = tuple(given) or model.spec.labels
        outputs = next(one.num_outputs for one in model.spec.heads if one.name == head)
        if len(self.names) != outputs:
            raise ConfigError(
                f"The head {head!r} of {model.architecture} has {outputs} outputs and there "
                f"are {len(self.names)} labels; name as many in the recipe (model.labels)."
            )
        if self.names != model.spec.labels:
            keep(model, head, labels=list(self.names))
        self.head, self.tally = head, tally
        self.ids = {label_text(name): i for i, name in enumerate(self.names)}
        self.ids |= {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def id(self, value: Any, record: Record) -> int:
        """Returns the index of a record's label, and counts it."""
        known = isinstance(value, str) and value in self.ids
        name: str = value if known else label_of(value, record)
        if name not in self.ids:
            near = get_close_matches(name, self.names, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            some = ", ".join(self.names[:20]) + (", ..." if len(self.names) > 20 else "")
            raise invalid(
                record,
                f"the label {name!r}{hint} is none of the model's: {some}",
                "model.labels names all labels of a new head",
            )
        self.tally.respelled += isinstance(value, str) and value != name
        self.tally.count_label(self.head, self.names[self.ids[name]])
        return self.ids[name]

    def check(self, tally: Tally) -> None:
        """Raises an error if all training records have the same label."""
        counts = tally.labels.get(self.head, Counter())
        if len(counts) != 1:
            return
        ((label, count),) = counts.items()
        raise DataError(
            f"All {count:,} labels of data.train are {label!r}, and training needs at least two; "
            "add records with other labels, or set the column of the label in [data.columns]."
        )
