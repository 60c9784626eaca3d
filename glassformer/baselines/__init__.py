"""Baseline layers to compare Transformers with: recurrent, convolutional, memory network.

They have the same interface as Transformer blocks. Importing this package registers them with
`core.stack`, which creates them from their specs.
"""

from glassformer.baselines.convolutional import ConvolutionalLayer
from glassformer.baselines.memory_network import MemoryNetworkHop
from glassformer.baselines.recurrent import RecurrentLayer
from glassformer.core.stack import LAYERS
from glassformer.spec import ConvolutionalSpec, MemoryHopSpec, RecurrentSpec

LAYERS[RecurrentSpec] = RecurrentLayer
LAYERS[ConvolutionalSpec] = ConvolutionalLayer
LAYERS[MemoryHopSpec] = MemoryNetworkHop
