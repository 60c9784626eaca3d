"""Task settings in config.json: thresholds, labels, prefixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glassformer.errors import ConfigError
from glassformer.spec import HeadSpec
from glassformer.tasks.model_protocol import TaskModel

SETTINGS = "task_specific_params"  # a key of config.json that transformers keeps and ignores
RENAMED = {"both_ways": "bidirectional_prefix"}  # keys in folders that version 0.1 has saved
COLUMNS = "columns"  # under this name training saves what the columns of its file were called
TRAINED = "text2text"  # under this name training saves the layout of sources, for any task


def settings_of(model: TaskModel, task: str) -> Mapping[str, Any]:
    """Returns the settings in config.json of a task or a head: thresholds, labels, a prefix."""
    tasks = model.config.get(SETTINGS) or {}
    found = tasks.get(task, {}) if isinstance(tasks, Mapping) else None
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"config.json gives {SETTINGS}.{task} the value {found!r}; it must be an object."
        )
    return {RENAMED.get(name) or name: value for name, value in found.items()}


def keep(model: TaskModel, task: str, **settings: Any) -> None:
    """Stores task settings in the model's config, so that they are saved with the model.

    Args:
        model: The model.
        task: The name of a task, or of one of several heads, which has its own settings.
        **settings: The settings; None deletes one.

    >>> keep(model, "classify", threshold={"spam": 0.9}); model.save(folder)
    """
    merged = {**settings_of(model, task), **settings}
    stored = {name: value for name, value in merged.items() if value is not None}
    model.config[SETTINGS] = {**(model.config.get(SETTINGS) or {}), task: stored}


def labels_of(model: TaskModel, head: HeadSpec) -> Sequence[str]:
    """Returns the head's own labels if config.json has them, else the model's."""
    names = settings_of(model, head.name).get("labels") or model.spec.labels
    if not isinstance(names, list | tuple) or len(names) != head.num_outputs:
        raise ConfigError(
            f"The head {head.name!r} of {model.architecture} has {head.num_outputs} outputs, and "
            f"config.json names other labels (id2label, {SETTINGS}.{head.name}.labels)."
        )
    return tuple(map(str, names))
