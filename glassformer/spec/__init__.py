"""Dataclasses that describe the architecture of a model. Imports no torch.

A model is described by a `ModelSpec`; the module tree in `core/` mirrors it part by part. Core code
branches on the fields defined here, never on the name of a model.
"""

from glassformer.spec.common import Activation, NormSpec
from glassformer.spec.embeddings import (
    AdaptiveSpec,
    AudioFramesSpec,
    PatchEmbeddingSpec,
    SignalSpec,
    TokenEmbeddingSpec,
)
from glassformer.spec.layers import (
    CAUSAL,
    FULL,
    AttentionPattern,
    AttentionSpec,
    BlockSparsePattern,
    BlockSpec,
    ConvolutionalSpec,
    FeedForwardSpec,
    LayerSpec,
    MemoryHopSpec,
    RecurrentSpec,
)
from glassformer.spec.model import (
    HeadSpec,
    InitSpec,
    ModelSpec,
    SpanBeamSpec,
    SpecialTokens,
    TransformSpec,
    head_among,
)
from glassformer.spec.positions import (
    AlibiSpec,
    DisentangledSpec,
    PositionSpec,
    PositionTableSpec,
    RelativePositionSpec,
    RotaryScaling,
    RotarySpec,
    ShawSpec,
    T5BiasSpec,
)
from glassformer.spec.stacks import ConvolutionSpec, MemorySpec, StackSpec

__all__ = [
    "CAUSAL",
    "FULL",
    "Activation",
    "AdaptiveSpec",
    "AlibiSpec",
    "AttentionPattern",
    "AttentionSpec",
    "AudioFramesSpec",
    "BlockSparsePattern",
    "BlockSpec",
    "ConvolutionSpec",
    "ConvolutionalSpec",
    "DisentangledSpec",
    "FeedForwardSpec",
    "HeadSpec",
    "InitSpec",
    "LayerSpec",
    "MemoryHopSpec",
    "MemorySpec",
    "ModelSpec",
    "NormSpec",
    "PatchEmbeddingSpec",
    "PositionSpec",
    "PositionTableSpec",
    "RecurrentSpec",
    "RelativePositionSpec",
    "RotaryScaling",
    "RotarySpec",
    "ShawSpec",
    "SignalSpec",
    "SpanBeamSpec",
    "SpecialTokens",
    "StackSpec",
    "T5BiasSpec",
    "TokenEmbeddingSpec",
    "TransformSpec",
    "head_among",
]
