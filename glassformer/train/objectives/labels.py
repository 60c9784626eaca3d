"""Labels of classification heads: from names in the data to output indices.

They are those of the model's config.json (`id2label`). A recipe can list them in [model]; otherwise
`find_labels` collects them from the data before the model is built.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from glassformer.data.record import Record
from glassformer.errors import ConfigError, DataError
from glassformer.model import Model
from glassformer.tasks.task_settings import keep
from glassformer.train.objectives.registry import find_objective


def find_labels(name: str, records: Iterable[Record]) -> tuple[str, ...]:
    """Returns all labels of an objective in the records, sorted (numbers by value).

    The result is empty if the objective's class has no `labels_of`, which returns the labels of a
    record.
    """
    labels_of: Callable[[Record], Iterable[str]] | None
    labels_of = getattr(find_objective(name), "labels_of", None)
    if labels_of is None:
        return ()
    found = {label for record in records for label in labels_of(record)}
    return tuple(sorted(found, key=label_order(found)))


def label_order(labels: Collection[str]) -> Callable[[str], int] | None:
    """Returns the key by which labels are sorted: numbers by value, others by the alphabet."""
    numbers = all(label.lstrip("-").isdecimal() for label in labels)
    return int if numbers else None


def written(value: Any) -> str:
    """Returns the name of a label; JSON and CSV may have a number or a string for the same one."""
    return str(int(value)) if isinstance(value, bool) else str(value)


class Labels:
    """The output indices of a model's labels.

    If several heads have different labels, `given` are those of this objective.
    """

    def __init__(self, model: Model, head: str, given: Sequence[str] = ()) -> None:
        self.names: Sequence[str] = tuple(given) or model.spec.labels
        outputs = next(one.num_outputs for one in model.spec.heads if one.name == head)
        if len(self.names) != outputs:
            raise ConfigError(
                f"The head {head!r} of {model.architecture} has {outputs} outputs and there "
                f"are {len(self.names)} labels; name as many in the recipe (model.labels)."
            )
        if self.names != model.spec.labels:
            keep(model, head, labels=list(self.names))
        self.ids = {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def id(self, value: Any, record: Record) -> int:
        """Returns the index of a record's label."""
        name = written(value)
        if name not in self.ids:
            near = get_close_matches(name, self.names, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            some = ", ".join(self.names[:20]) + (", ..." if len(self.names) > 20 else "")
            raise DataError(
                f"{record.get('where', 'A record')} has the label {name!r}{hint}, which is none of "
                f"the model's: {some}. Mend it, name all labels in model.labels, or leave such "
                'records out with data.on_error = "skip".'
            )
        return self.ids[name]
