"""Tokenizers: encoding text to token ids, decoding ids to text, and training vocabularies."""

from glassformer.text.detokenize_stream import DetokenizeStream
from glassformer.text.encoding import BatchEncoding, TextEncoding
from glassformer.text.representations import one_hot
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.training.train import train

__all__ = [
    "BatchEncoding",
    "DetokenizeStream",
    "TextEncoding",
    "Tokenizer",
    "one_hot",
    "train",
]
