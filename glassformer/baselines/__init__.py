"""Baselines room: layers that are no Transformer's, to compare one with, behind the same interface.

A stack is described by its layers; those of the kinds here are made here.
"""

from glassformer.baselines.convolutional import Convolutional
from glassformer.baselines.memory_network import Hop
from glassformer.baselines.recurrent import Recurrent
from glassformer.core.stack import LAYERS
from glassformer.spec import Convolutional as ConvolutionalSpec
from glassformer.spec import Hop as HopSpec
from glassformer.spec import Recurrent as RecurrentSpec

LAYERS[RecurrentSpec] = Recurrent
LAYERS[ConvolutionalSpec] = Convolutional
LAYERS[HopSpec] = Hop
