"""The registry of tasks by verb: the head that each needs and the objective that trains it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from glassformer.registry import Registry

if TYPE_CHECKING:
    from glassformer.tasks.model_protocol import TaskModel

Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True)
class TaskDeclaration:
    """What a task needs of a model.

    Attributes:
        head: The kind of head, a key of `heads.HEADS`.
        objective: The objective, or objectives, that train such a head for this task.
        fits: Returns whether the task suits a model that has such a head.
    """

    head: str
    objective: str
    fits: Callable[[TaskModel], bool] = lambda model: True


TASKS: Registry[TaskDeclaration] = Registry("task", __package__)


def task(
    verb: str,
    *,
    head: str,
    objective: str,
    fits: Callable[[TaskModel], bool] = lambda model: True,
) -> Callable[[Kind], Kind]:
    """Returns a decorator that declares a class as the task of a verb; see `TaskDeclaration`."""

    def declare(kind: Kind) -> Kind:
        TASKS.register(verb, TaskDeclaration(head=head, objective=objective, fits=fits))
        return kind

    return declare
