"""Early exit: the model's output is computed from the hidden state of an earlier layer.

The final norm and the head read that hidden state, as in a lens, for predictions and for
generation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from glassformer.inside.intervene.edit import Edits, Places
from glassformer.inside.intervene.editing import applied_edits
from glassformer.inside.lens.stages import stage_at, stage_names
from glassformer.inside.lens.tuned_lens import TunedLens
from glassformer.tasks.model_protocol import TaskModel


class EarlyExit(Edits):
    """Replaces the last stage's residual stream by that of an earlier stage.

    If there is a tuned lens, it maps the earlier stage first.
    """

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
    """Makes the model compute its outputs from an earlier layer within the context.

    Args:
        model: The model.
        layer: The layer whose output is used; None for the embedding.
        part: "resid_post", or "resid_mid" for the residual stream after the layer's attention.
        tuned: A tuned lens that maps the residual stream.

    Yields:
        The model.

    >>> with inside.early_exit(model, layer=3, tuned=lens):
    ...     model.generate("Once upon a time")
    """
    stage, last = stage_at(model.spec, layer, part), stage_names(model.spec)[-1]
    if tuned is not None:
        tuned.check(model)
    with applied_edits(model, (EarlyExit(stage, last, tuned),)):
        yield model
