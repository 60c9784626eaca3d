"""The Transformer implementation: PyTorch modules that are built from specs."""

from glassformer.core.cache import Cache
from glassformer.core.hooks import ActivationCapture, Tap
from glassformer.core.model_output import ModelOutput
from glassformer.core.permutation import Permutation
from glassformer.core.transformer import Transformer

__all__ = ["ActivationCapture", "Cache", "ModelOutput", "Permutation", "Tap", "Transformer"]
