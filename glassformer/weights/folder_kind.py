"""Detection of what a folder contains: a model, an adapter, or a training run."""

from __future__ import annotations

from pathlib import Path

from glassformer.errors import LoadError

ADAPTER_CONFIG, ADAPTER_TENSORS = "adapter_config.json", "adapter_model.safetensors"
ADAPTER_FILES = (ADAPTER_TENSORS, "adapter_model.bin")  # peft wrote the second before version 0.5
RECIPES = ("recipe.toml", "recipe.json")  # a run writes one of them


def holds_adapter(folder: Path) -> bool:
    """Whether the folder contains only an adapter.

    Such a folder may include the config.json of the base model, but not its weights.
    """
    if not (folder / ADAPTER_CONFIG).is_file():
        return False
    files = [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]
    return not any(file.name != ADAPTER_TENSORS for file in files)


def adapter_tensors(folder: Path) -> Path:
    """Returns the file with the tensors of an adapter; the usual one if there is none."""
    files = [folder / name for name in ADAPTER_FILES]
    return next((file for file in files if file.is_file()), files[0])


def recipe_of(folder: Path) -> Path | None:
    """Returns the recipe in the folder of a training run; None if there is none."""
    return next((path for name in RECIPES if (path := folder / name).is_file()), None)


def is_run_alone(folder: Path) -> bool:
    """Whether the folder belongs to a training run and is not itself a model or an adapter."""
    own = ("config.json", ADAPTER_CONFIG)
    return recipe_of(folder) is not None and not any((folder / name).is_file() for name in own)


def published(folder: Path) -> Path:
    """Resolves a folder to the folder of the model to load.

    Returns:
        `folder` itself, unless it is the folder of a training run. For a run, the folder of the
        final model; while the run is unfinished, the best model or else the newest one kept.

    Raises:
        LoadError: The run has saved no model yet.
    """
    if not is_run_alone(folder):
        return folder
    found = [path for path in (folder / "model", folder / "best") if path.is_dir()]
    found += reversed(_steps(folder / "steps"))
    if not found:
        raise LoadError(
            f"The run {folder} has no model yet; `glassformer train {recipe_of(folder)}` "
            "resumes the run."
        )
    return found[0]


def has_checkpoints_alone(folder: Path) -> bool:
    """Whether a run has saved training checkpoints to resume from, but no model yet."""
    names = ("model", "best", "steps")
    begun = is_run_alone(folder) and bool(_steps(folder / "state"))
    return begun and not any((folder / name).is_dir() for name in names)


def _steps(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if not path.suffix)
