"""Room 3, core: the one Transformer. Specs and tensors come in, tensors go out."""

from glassformer.core.cache import Cache
from glassformer.core.transformer import Net, Output
from glassformer.core.permutation import Permutation
from glassformer.core.hooks import Capture, Tap

__all__ = ["Cache", "Capture", "Net", "Output", "Permutation", "Tap"]
