"""Text generation: configuration, generator, results, and scoring."""

from glassformer.core.score import Score
from glassformer.generate.config import GenerationConfig
from glassformer.generate.infilling import infill
from glassformer.generate.result import GenerationChunk, GenerationInterrupted, GenerationOutput
from glassformer.generate.writer import Generator

__all__ = [
    "GenerationChunk",
    "GenerationConfig",
    "GenerationInterrupted",
    "GenerationOutput",
    "Generator",
    "Score",
    "infill",
]
