"""Generate room: a net, a tokenizer and knobs come in; texts go out."""

from glassformer.generate.config import Knobs
from glassformer.generate.result import Generation, Interrupted, Piece
from glassformer.generate.score import QuantizationCost, Score
from glassformer.generate.writer import Writer

__all__ = ["Generation", "Interrupted", "Knobs", "Piece", "QuantizationCost", "Score", "Writer"]
