"""Room 1, the description: what a model is made of, as values. Imports no torch.

A model is a `ModelSpec`; the module tree in `core/` mirrors it part by part. Core code
branches on the fields written here, never on a model's name.
"""

from glassformer.spec.common import Activation, Norm
from glassformer.spec.embeddings import Adaptive, Embed, Frames, Patches, Signal
from glassformer.spec.layers import (
    CAUSAL,
    FFN,
    FULL,
    Attention,
    Block,
    Blocks,
    Convolutional,
    Hop,
    Layer,
    Pattern,
    Recurrent,
)
from glassformer.spec.model import (
    Beam,
    Head,
    Init,
    ModelSpec,
    SpecialTokens,
    Transform,
    head_among,
)
from glassformer.spec.positions import (
    Alibi,
    Buckets,
    Disentangled,
    Position,
    Relative,
    Rotary,
    RotaryScaling,
    Shaw,
    Table,
)
from glassformer.spec.stacks import Convolution, Memory, Stack

__all__ = [
    "CAUSAL",
    "FFN",
    "FULL",
    "Activation",
    "Adaptive",
    "Alibi",
    "Attention",
    "Beam",
    "Block",
    "Blocks",
    "Buckets",
    "Convolution",
    "Convolutional",
    "Disentangled",
    "Embed",
    "Frames",
    "Head",
    "Hop",
    "Init",
    "Layer",
    "Memory",
    "ModelSpec",
    "Norm",
    "Patches",
    "Pattern",
    "Position",
    "Recurrent",
    "Relative",
    "Rotary",
    "RotaryScaling",
    "Shaw",
    "Signal",
    "SpecialTokens",
    "Stack",
    "Table",
    "Transform",
    "head_among",
]
