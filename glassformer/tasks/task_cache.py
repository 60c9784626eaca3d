"""Task objects (`Classifier`, `Tagger`, ...) that a model keeps between calls."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from copy import deepcopy
from threading import RLock
from typing import Any, TypeVar

from glassformer.generate.context import context_length
from glassformer.tasks.model_protocol import TaskModel, text_stack

Task = TypeVar("Task")
ATTRIBUTE = "_task_cache"
SIZE = 8  # tasks per model


def cached_task(model: TaskModel, make: Callable[..., Task], **options: Any) -> Task:
    """Returns `make(model, **options)`, or the task that an earlier call made.

    A kept task refers to the model weakly: otherwise the model would refer to itself, and its
    memory would not be freed as soon as it is no longer used.
    """
    key = freeze((make, options))
    try:
        hash(key)
    except TypeError:
        return make(model, **options)
    if ATTRIBUTE not in vars(model):
        vars(model)[ATTRIBUTE] = TaskCache()
    cache: TaskCache = vars(model)[ATTRIBUTE]
    with cache.lock:
        tasks: dict[Any, Task] = cache.tasks_of(model)
        if key not in tasks:
            if len(tasks) == SIZE:
                del tasks[next(iter(tasks))]
            tasks[key] = make(weakref.proxy(model), **options)
        return tasks[key]


class TaskCache:
    """The tasks of a model, which are dropped when the model changes. It is not copied."""

    def __init__(self) -> None:
        self._made_for: ModelState | None = None
        self._tasks: dict[Any, Any] = {}
        self.lock = RLock()

    def tasks_of(self, model: TaskModel) -> dict[Any, Any]:
        if self._made_for is None or not self._made_for.is_current(model):
            self._made_for, self._tasks = ModelState(model), {}
        return self._tasks

    def __reduce__(self) -> tuple[type[TaskCache], tuple[()]]:
        return TaskCache, ()


class ModelState:
    """What a task reads of a model when it is made, apart from the weights."""

    def __init__(self, model: TaskModel) -> None:
        self.spec, self.tokenizer = model.spec, model.tokenizer  # both are immutable
        self.values = deepcopy(self._values(model))

    def is_current(self, model: TaskModel) -> bool:
        same = model.spec is self.spec and model.tokenizer is self.tokenizer
        return same and self._values(model) == self.values

    @staticmethod
    def _values(model: TaskModel) -> tuple[Any, ...]:
        positions = context_length(text_stack(model))
        return model.config, model.generation_config, model.pooling, positions, model.device


def freeze(value: Any) -> Any:
    """Returns a key for a value that stays the same when a list or dict is changed later."""
    if isinstance(value, Mapping):
        return Mapping, tuple((name, freeze(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return type(value), tuple(map(freeze, value))
    return type(value), value  # 1 is not True
