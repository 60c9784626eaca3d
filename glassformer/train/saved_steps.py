"""The saved models of a run folder, by step.

`run.snapshot_steps` and `run.snapshots` save models of individual steps; there are also the best
model, the last model, and, for an unfinished run, its newest checkpoint. A folder that is both a
model and a run with the steps that led to it is itself the last model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load as load_tensors

from glassformer.errors import LoadError
from glassformer.loading import load
from glassformer.model import Model
from glassformer.train.build_model import build_model
from glassformer.train.build_objective import add_adapter, build_objective, with_labels
from glassformer.train.checkpointing import (
    checkpoints,
    no_warnings,
    read_progress,
    reading,
    step_folders,
    step_number,
)
from glassformer.train.compare_runs import read_run
from glassformer.train.inputs import FILE as INPUTS
from glassformer.train.inputs import RunInputs, read_inputs
from glassformer.train.run_folder import Run
from glassformer.weights.folder_kind import recipe_of

WEIGHTS = "weights.net."


@dataclass(frozen=True)
class Snapshot:
    """The model of a run after a step.

    `name` is "best" or "model" if it is one of those.
    """

    run: Run
    folder: Path
    step: int
    name: str | None = None

    @property
    def loss(self) -> float | None:
        """The validation loss at this step, or else the last training loss logged by then."""
        found = None
        for entry in self.run.entries():
            if entry["step"] == self.step and "valid" in entry:
                loss: float | None = entry["valid"].get("loss")
                return loss
            if entry["step"] <= self.step and "loss" in entry:
                found = entry["loss"]
        return found

    def load(self) -> Model:
        """Loads the model in float32."""
        if not self.folder.exists():
            raise LoadError(
                f"{self.folder} is gone, and with it the model of step {self.step}; choose another."
            )
        if self.folder.parent == self.run.state:
            return _from_state(self.run, self.folder)
        return load(self.folder, dtype=torch.float32)


def is_run(folder: str | Path) -> bool:
    """Returns whether a folder is a run folder."""
    return recipe_of(Path(folder)) is not None


def snapshots(folder: str | Path) -> list[Snapshot]:
    """Returns the saved models of a run in the order of their steps, one per step."""
    run = read_run(Path(folder))
    ending = run.finished or _newest_progress(run)
    found = [(path, step_number(path), None) for path in step_folders(run.steps)]
    found += [(path, step_number(path), None) for path in checkpoints(run.state)]
    last = run.folder if (run.folder / "config.json").is_file() else run.model
    named = {"best": (run.best, "best_step"), "model": (last, "step")}
    found += [(path, ending.get(key, 0), name) for name, (path, key) in named.items()]  # type: ignore[misc]
    by_step = {step: Snapshot(run, path, step, name) for path, step, name in found if path.is_dir()}
    if not by_step:
        raise LoadError(
            f"The run {folder} holds no model yet; one is there after its first checkpoint."
        )
    return [by_step[step] for step in sorted(by_step)]


def _newest_progress(run: Run) -> dict[str, Any]:
    saved = checkpoints(run.state)
    return read_progress(saved[-1]) if saved else {}


def _from_state(run: Run, folder: Path) -> Model:
    """Rebuilds the initial model of the run and loads the weights of a checkpoint into it."""
    recipe = with_labels(run.recipe)
    _check_inputs(run, data=recipe.model.labels != run.recipe.model.labels)
    model, _ = build_objective(recipe, build_model(recipe, _no_texts, run.tokenizer))
    if recipe.adapter is not None:
        model = add_adapter(model, recipe)
    reader = HuggingFaceStorageReader(str(folder))
    with reading(folder):
        stored = reader.read_metadata().state_dict_metadata
    own = {f"{WEIGHTS}{name}": tensor for name, tensor in model.state_dict().items()}
    with no_warnings(), torch.no_grad(), reading(folder):
        load_tensors(
            {name: tensor for name, tensor in own.items() if name in stored},
            storage_reader=reader,
            no_dist=True,
        )
    return model


def _check_inputs(run: Run, data: bool) -> None:
    """Raises an error if the model that a run started from is no longer the same.

    Args:
        run: The run.
        data: Whether the training data was read, for the labels.
    """
    path, read = run.folder / INPUTS, ("model.base", "tokenizer.folder", *["data.train"] * data)
    if path.is_file():
        before = {name: files for name, files in read_inputs(path).items() if name in read}
        changed = RunInputs(run.recipe, run.folder).changed(before)
        if changed:
            raise LoadError(changed)


def _no_texts() -> Sequence[str]:
    raise LoadError(
        "The run's tokenizer is gone (tokenizer/ in its folder), so its checkpoint cannot be read."
    )
