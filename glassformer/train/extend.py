"""More epochs or steps for a run: `glassformer train runs/bank --epochs 5`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from glassformer.errors import ConfigError, LoadError
from glassformer.train.checkpointing import STATE, checkpoints, read_progress
from glassformer.train.recipe import Recipe
from glassformer.train.stored_recipe import read_stored_recipe
from glassformer.train.train_state import TrainState
from glassformer.weights.folder_kind import recipe_of


def extended_recipe(
    folder: Path, epochs: float | None = None, max_steps: int | None = None
) -> Recipe:
    """Returns the recipe of a run with another length; everything else stays as it is.

    Args:
        folder: The run folder.
        epochs: The number of epochs in total.
        max_steps: The number of steps in total, in place of epochs.
    """
    path = recipe_of(folder)
    if path is None:
        raise LoadError(f"{folder} is no run folder: it has no recipe.toml.")
    recipe = read_stored_recipe(path)
    recipe = replace(recipe, run=replace(recipe.run, out=str(folder)))
    if epochs is None and max_steps is None:
        return recipe
    if epochs is not None and max_steps is not None:
        raise ConfigError("--epochs or --max-steps: give one.")
    saved = checkpoints(folder / STATE)
    state = TrainState.from_checkpoint(read_progress(saved[-1])) if saved else TrainState()
    done = state.tokens / state.tokens_per_epoch if state.tokens_per_epoch else 0.0
    if (epochs is not None and epochs <= done) or (
        max_steps is not None and max_steps <= state.step
    ):
        raise ConfigError(
            f"The run in {folder} has done {state.step:,} steps ({done:.1f} epochs) already; "
            "--epochs and --max-steps count all of them, so give more."
        )
    return replace(recipe, train=replace(recipe.train, epochs=epochs, max_steps=max_steps))
