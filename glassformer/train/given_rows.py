"""Rows that are given in Python: of a pandas DataFrame, a `datasets.Dataset`, or dicts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from glassformer.errors import InputError

MISSING = ("NoneType", "NAType", "NaTType")  # of Python and pandas, which need not be installed


def rows_of(data: Any) -> list[dict[str, Any]]:
    """Returns the rows as dicts of plain values.

    Numbers that stand for named classes (`datasets.ClassLabel`) become their names.
    """
    if hasattr(data, "to_dicts"):  # a DataFrame of polars
        rows: Iterable[Any] = data.to_dicts()
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):  # a DataFrame of pandas
        rows = data.to_dict("records")
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
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def plain(value: Any, classes: list[str] | None = None) -> Any:
    """Returns a value of numpy or pandas as a plain one; what is missing becomes None.

    Values that JSON does not have, such as dates, become texts; bytes become None.
    """
    convert: Callable[[], Any] | None
    convert = getattr(value, "tolist", None) or getattr(value, "item", None)
    if convert is not None:
        value = convert()
    if type(value).__name__ in MISSING or isinstance(value, bytes):
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, set | frozenset):
        value = sorted(value)
    if isinstance(value, list | tuple):
        return [plain(one, classes) for one in value]
    if classes is not None and isinstance(value, int) and 0 <= value < len(classes):
        return classes[value]
    return value if isinstance(value, str | int) else str(value)
