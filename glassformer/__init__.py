"""One Transformer, made of glass."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import glassformer.evaluate as evaluate
    import glassformer.inside as inside
    import glassformer.train as train
    from glassformer.core import Cache, Capture
    from glassformer.errors import GlassformerError
    from glassformer.inside.compare import compare
    from glassformer.model import Model
    from glassformer.loading import create, load, open_index
    from glassformer.spec import ModelSpec
    from glassformer.text import Tokenizer

__version__ = "0.1.0"
__all__ = [
    "Cache",
    "Capture",
    "GlassformerError",
    "Model",
    "ModelSpec",
    "Tokenizer",
    "compare",
    "create",
    "evaluate",
    "inside",
    "load",
    "open_index",
    "train",
]
ROOMS = {
    "core": ("Cache", "Capture"),
    "errors": ("GlassformerError",),
    "inside.compare": ("compare",),
    "model": ("Model",),
    "loading": ("create", "load", "open_index"),
    "spec": ("ModelSpec",),
    "text": ("Tokenizer",),
}


def __getattr__(name: str) -> Any:
    """Rooms are entered when something of them is asked for: torch takes seconds to import, and
    whoever imports this package alone does not wait for it."""
    if name in ("evaluate", "inside", "train"):
        return import_module(f"glassformer.{name}")
    for room, things in ROOMS.items():
        if name in things:
            return getattr(import_module(f"glassformer.{room}"), name)
    raise AttributeError(f"module 'glassformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
