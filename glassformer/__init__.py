"""One Transformer, made of glass."""

import glassformer.evaluate as evaluate
import glassformer.inside as inside
import glassformer.train as train
from glassformer.core import Cache, Capture
from glassformer.errors import GlassformerError
from glassformer.inside.compare import compare
from glassformer.model import Model
from glassformer.source import create, load, open_index
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
