"""Exports the model of a run in the published layout, or its adapter in peft's layout."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.errors import GlassformerError, LoadError
from glassformer.train.data_parallel import gather_full_state

if TYPE_CHECKING:
    from glassformer.train.loop import TrainingLoop

DraftFolder = Callable[[Path], AbstractContextManager[Path]]


def export_model(loop: TrainingLoop, folder: Path, draft_folder: DraftFolder = nullcontext) -> None:
    """Saves the averaged weights, or the current ones if there is no average.

    All processes must call it; the main process writes.

    Args:
        loop: The training loop with the model.
        folder: Folder to save to.
        draft_folder: Returns a context manager that yields the temporary path to write to first.
    """

    def save() -> None:
        with draft_folder(folder) as path:
            if loop.recipe.adapter is None:
                loop.model.save(path)
            else:
                loop.model.adapters.save(path)
            for name, companion in loop.module.objective.companions().items():
                companion.save(path / name)

    worker = loop.worker
    with (
        loop.average.in_place(),
        gather_full_state(loop.module, loop.shard_plan, worker.is_main),
    ):
        try:
            worker.on_main(save)
        except GlassformerError as error:
            raise LoadError(
                f"{error} Checkpoints of the run are whole: make room or get permission, and "
                "the same command resumes."
            ) from None
