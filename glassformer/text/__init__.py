"""The first room: text comes in, token ids go out, and the way back."""

from glassformer.text.encoding import Batch, Encoded
from glassformer.signals.image_processor import ImageReader
from glassformer.text.representations import one_hot
from glassformer.signals.audio_features import SoundReader
from glassformer.text.detokenize_stream import Stream
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.training.train import train

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
