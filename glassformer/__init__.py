"""One Transformer, made of glass."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer import adapters, errors, inside
    from glassformer.adapters import LoRA
    from glassformer.core import ActivationCapture, Cache
    from glassformer.core.model_output import ModelOutput
    from glassformer.creation import create
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
    from glassformer.generate.config import GenerationConfig
    from glassformer.inside.compare import compare
    from glassformer.loading import load, open_index
    from glassformer.model import Model
    from glassformer.spec import ModelSpec
    from glassformer.text import Tokenizer
    from glassformer.train.entry import train

__version__ = "0.2.0"
MODULES = {  # where the names of the public API are defined
    "ActivationCapture": "core",
    "Cache": "core",
    "ConfigError": "errors",
    "DataError": "errors",
    "DeviceError": "errors",
    "GenerationConfig": "generate.config",
    "GlassformerError": "errors",
    "InputError": "errors",
    "LoRA": "adapters",
    "LoadError": "errors",
    "Model": "model",
    "ModelOutput": "core.model_output",
    "ModelSpec": "spec",
    "Tokenizer": "text",
    "UnsupportedError": "errors",
    "compare": "inside.compare",
    "create": "creation",
    "load": "loading",
    "open_index": "loading",
}
SUBPACKAGES = (
    "adapters",
    "core",
    "data",
    "errors",
    "evaluate",
    "families",
    "generate",
    "inside",
    "metrics",
    "spec",
    "tasks",
    "text",
    "train",
    "weights",
)
__all__ = [
    "ActivationCapture",
    "Cache",
    "ConfigError",
    "DataError",
    "DeviceError",
    "GenerationConfig",
    "GlassformerError",
    "InputError",
    "LoRA",
    "LoadError",
    "Model",
    "ModelOutput",
    "ModelSpec",
    "Tokenizer",
    "UnsupportedError",
    "adapters",
    "compare",
    "create",
    "errors",
    "evaluate",
    "inside",
    "load",
    "open_index",
    "train",
]


def __getattr__(name: str) -> Any:
    """Subpackages are imported on first use, because importing torch takes seconds."""
    if name in SUBPACKAGES:
        return import_module(f"glassformer.{name}")
    if name in MODULES:
        return getattr(import_module(f"glassformer.{MODULES[name]}"), name)
    raise AttributeError(f"module 'glassformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
