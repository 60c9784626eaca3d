"""What a folder holds: a model, an adapter, or a run that has trained either."""

from __future__ import annotations

from pathlib import Path

from glassformer.errors import GlassformerError

ADAPTER_CONFIG, ADAPTER_TENSORS = "adapter_config.json", "adapter_model.safetensors"
RECIPE = "recipe.toml"


def holds_adapter(folder: Path) -> bool:
    """An adapter alone; its folder may have the config.json of its base, but not the weights."""
    if not (folder / ADAPTER_CONFIG).is_file():
        return False
    files = [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]
    return not any(file.name != ADAPTER_TENSORS for file in files)


def is_run_alone(folder: Path) -> bool:
    """The folder of a training run, which is not a model itself."""
    own = ("config.json", ADAPTER_CONFIG)
    return (folder / RECIPE).is_file() and not any((folder / name).is_file() for name in own)


def published(folder: Path) -> Path:
    """The folder itself, or of a run the folder of the model that it has published: the one of the
    end, or while the run is not over the best one, or the newest one that was kept."""
    if not is_run_alone(folder):
        return folder
    found = [path for path in (folder / "model", folder / "best") if path.is_dir()]
    found += reversed(_steps(folder / "steps"))
    if not found:
        raise GlassformerError(
            f"The run {folder} has no model yet; `glassformer train {folder / RECIPE}` goes on "
            "with it."
        )
    return found[0]


def has_checkpoints_alone(folder: Path) -> bool:
    """A run that has published no model, and can be asked for what it would go on from."""
    names = ("model", "best", "steps")
    begun = is_run_alone(folder) and bool(_steps(folder / "state"))
    return begun and not any((folder / name).is_dir() for name in names)


def _steps(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if not path.suffix)
