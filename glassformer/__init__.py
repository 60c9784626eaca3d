"""One Transformer, made of glass."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import glassformer.inside as inside
    from glassformer.core import ActivationCapture, Cache
    from glassformer.errors import (
        ConfigError,
        DataError,
        DeviceError,
        GlassformerError,
        InputError,
        LoadError,
        UnsupportedError,
    )
    from glassformer.evaluate.evaluate import evaluate
    from glassformer.inside.compare import compare
    from glassformer.loading import create, load, open_index
    from glassformer.model import Model
    from glassformer.spec import ModelSpec
    from glassformer.text import Tokenizer
    from glassformer.train.trainer import train

__version__ = "0.2.0"
__all__ = [
    "ActivationCapture",
    "Cache",
    "ConfigError",
    "DataError",
    "DeviceError",
    "GlassformerError",
    "InputError",
    "LoadError",
    "Model",
    "ModelSpec",
    "Tokenizer",
    "UnsupportedError",
    "compare",
    "create",
    "evaluate",
    "inside",
    "load",
    "open_index",
    "train",
]
MODULES = {
    "core": ("Cache", "ActivationCapture"),
    "errors": (
        "ConfigError",
        "DataError",
        "DeviceError",
        "GlassformerError",
        "InputError",
        "LoadError",
        "UnsupportedError",
    ),
    "inside.compare": ("compare",),
    "model": ("Model",),
    "loading": ("create", "load", "open_index"),
    "spec": ("ModelSpec",),
    "text": ("Tokenizer",),
}


def __getattr__(name: str) -> Any:
    """Subpackages are imported on first use, because importing torch takes seconds."""
    if name in ("evaluate", "inside", "train"):
        return import_module(f"glassformer.{name}")
    for module, names in MODULES.items():
        if name in names:
            return getattr(import_module(f"glassformer.{module}"), name)
    raise AttributeError(f"module 'glassformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
