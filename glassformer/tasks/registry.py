"""The registry of tasks by verb: the head that each needs, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from glassformer.registry import Registry

if TYPE_CHECKING:
    from glassformer.tasks.model_protocol import TaskModel

Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """The file that a task is trained on, and how a model is judged by it.

    Attributes:
        columns: The columns that the objective needs, each with other names that files give it.
        optional: The same of columns that it can use.
        metric: The metric that decides which model is the best.
        evaluation: The task of `evaluate`; None if only the loss is measured.
        format: Format of files whose ending says nothing; None if there is no usual one.
    """

    columns: Mapping[str, tuple[str, ...]]
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metric: str = "loss"
    evaluation: str | None = None
    format: str | None = None


@dataclass(frozen=True, kw_only=True)
class TaskDeclaration:
    """What a task needs of a model.

    Attributes:
        head: The kind of head, a key of `heads.HEADS`.
        objective: The objective, or objectives, that train such a head for this task.
        fits: Returns whether the task suits a model that has such a head.
        training: How it is trained on a user's file; None if only a recipe trains it.
    """

    head: str
    objective: str
    fits: Callable[[TaskModel], bool] = lambda model: True
    training: TrainingData | None = None


TASKS: Registry[TaskDeclaration] = Registry("task", __package__)


def task(
    verb: str,
    *,
    head: str,
    objective: str,
    fits: Callable[[TaskModel], bool] = lambda model: True,
    training: TrainingData | None = None,
) -> Callable[[Kind], Kind]:
    """Returns a decorator that declares a class as the task of a verb; see `TaskDeclaration`."""

    def declare(kind: Kind) -> Kind:
        declared = TaskDeclaration(head=head, objective=objective, fits=fits, training=training)
        TASKS.register(verb, declared)
        return kind

    return declare
