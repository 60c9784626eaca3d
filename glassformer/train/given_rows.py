"""Rows that are given in Python: of a pandas DataFrame, a `datasets.Dataset`, or dicts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from glassformer.errors import InputError


def rows_of(data: Any) -> list[dict[str, Any]]:
    """Returns the rows as dicts of plain values.

    Numbers that stand for named classes (`datasets.ClassLabel`) become their names.
    """
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # a DataFrame
        rows: Iterable[Any] = data.to_dict("records")
    elif isinstance(data, Mapping) and data and not hasattr(data, "features"):
        names = ", ".join(map(str, data))
        raise InputError(
            f"These are {names}, and not rows; give one of them, such as "
            f"data[{next(iter(data))!r}], or a list of dicts."
        )
    elif isinstance(data, Iterable):
        rows = data
    else:
        raise InputError(
            f"Rows are a file, a DataFrame, a Dataset or a list of dicts, not a "
            f"{type(data).__name__}."
        )
    features = getattr(data, "features", None) or {}
    classes = {
        str(name): feature.names
        for name, feature in features.items()
        if getattr(feature, "names", None)
    }
    found = []
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputError(f"Row {number} is a {type(row).__name__}; a row is a dict.")
        found.append({str(k): plain(v, classes.get(str(k))) for k, v in row.items()})
    if not found:
        raise InputError("There are no rows to learn from.")
    return found


def as_json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Returns the rows as a file of JSON lines."""
    try:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    except TypeError as error:
        raise InputError(f"A row cannot be written as JSON ({error}).") from None
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def plain(value: Any, classes: list[str] | None = None) -> Any:
    """Returns a value of numpy or pandas as a plain one; what is missing becomes None."""
    convert: Callable[[], Any] | None
    convert = getattr(value, "tolist", None) or getattr(value, "item", None)
    if convert is not None:
        value = convert()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, list | tuple):
        return [plain(one, classes) for one in value]
    if classes is not None and isinstance(value, int) and 0 <= value < len(classes):
        return classes[value]
    return value
