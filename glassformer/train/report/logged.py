"""Log entries as flat metric names, shared by TensorBoard and W&B."""

from __future__ import annotations

from importlib.util import find_spec

from glassformer.train.reporter import Entry


def is_installed(package: str) -> bool:
    """Returns whether a package is installed.

    A folder of that name, such as W&B creates, does not count.
    """
    found = find_spec(package)
    return found is not None and found.origin is not None


def metrics_of(entry: Entry) -> dict[str, float]:
    """Returns the values of a metrics.jsonl line under names that such programs group by prefix."""
    if "valid" in entry:
        splits = {split: entry.get(split, {}) for split in ("valid", "test")}
        return {f"{split}/{n}": value for split in splits for n, value in splits[split].items()}
    named = {name: entry[name] for name in ("loss", "learning_rate", "gradient", "tokens")}
    parts = entry["parts"] if len(entry["parts"]) > 1 else {}
    return {
        **{f"train/{name}": value for name, value in named.items()},
        **{f"parts/{name}": value for name, value in parts.items()},
        **{f"speed/{name}": value for name, value in entry["speed"].items()},
    }
