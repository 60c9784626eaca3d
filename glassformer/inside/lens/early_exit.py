"""A layer has the last word. What it hands on is read by the last norm and
the head, as a lens reads it, whatever the model is asked: its predictions, or to write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from glassformer.inside.intervene.edit import Edits, Places
from glassformer.inside.intervene.editing import standing
from glassformer.inside.lens.stages import stage_at, stage_names
from glassformer.inside.lens.tuned_lens import TunedLens
from glassformer.tasks.model_protocol import TaskModel


class EarlyExit(Edits):
    """What passes at one stage stands, carried by a tuned lens or as it is, in the last one's
    place."""

    def __init__(self, stage: str, last: str, tuned: TunedLens | None) -> None:
        super().__init__(())
        self.stage, self.last, self.tuned = stage, last, tuned

    def wants(self, name: str) -> bool:
        return name in (self.stage, self.last)

    def apply(self, name: str, value: Tensor, places: Places) -> Tensor:
        if name == self.stage:
            self.held = value
        if name != self.last:
            return value
        return self.held if self.tuned is None else self.tuned.map(self.stage, self.held)


@contextmanager
def early_exit(
    model: TaskModel, layer: int | None, *, part: str = "resid_post", tuned: TunedLens | None = None
) -> Iterator[TaskModel]:
    """`layer` None is the embedding; `part` "resid_mid": behind the layer's attention.

    >>> with inside.early_exit(model, layer=3, tuned=lens):
    ...     model.generate("Once upon a time")
    """
    stage, last = stage_at(model.spec, layer, part), stage_names(model.spec)[-1]
    if tuned is not None:
        tuned.check(model)
    with standing(model.net, (EarlyExit(stage, last, tuned),)):
        yield model
