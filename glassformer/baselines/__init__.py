"""Layers that are no Transformer's, to compare one with, behind the same interface.

A stack is described by its layers; those of the kinds here are made here.
"""

from glassformer.baselines.convolutional import ConvolutionalLayer
from glassformer.baselines.memory_network import MemoryNetworkHop
from glassformer.baselines.recurrent import RecurrentLayer
from glassformer.core.stack import LAYERS
from glassformer.spec import ConvolutionalSpec, MemoryHopSpec, RecurrentSpec

LAYERS[RecurrentSpec] = RecurrentLayer
LAYERS[ConvolutionalSpec] = ConvolutionalLayer
LAYERS[MemoryHopSpec] = MemoryNetworkHop
