"""The first room: text comes in, token ids go out, and the way back."""

from glassformer.text.encoded import Batch, Encoded
from glassformer.text.image import ImageReader
from glassformer.text.representations import one_hot
from glassformer.text.sound import SoundReader
from glassformer.text.stream import Stream
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import train

__all__ = [
    "Batch",
    "Encoded",
    "ImageReader",
    "SoundReader",
    "Stream",
    "Tokenizer",
    "one_hot",
    "train",
]
