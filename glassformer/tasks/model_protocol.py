"""What the tasks need of a model: `TaskModel`, a tokenizer and length limits."""

from __future__ import annotations

from typing import Any

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.generate import Generator
from glassformer.generate.context import context_length
from glassformer.spec import AudioFramesSpec, PatchEmbeddingSpec
from glassformer.tasks.pooling import Pooling
from glassformer.text import Tokenizer
from glassformer.weights.pretrained import PretrainedTransformer


class TaskModel(PretrainedTransformer):
    """The part of `glassformer.Model` that tasks use."""

    generation_config: dict[str, Any] | None

    @property
    def tokenizer(self) -> Tokenizer | None:
        raise NotImplementedError

    @property
    def pooling(self) -> Pooling | None:
        raise NotImplementedError

    @property
    def generator(self) -> Generator:
        raise NotImplementedError


def require_tokenizer(model: TaskModel) -> Tokenizer:
    if model.tokenizer is None:
        raise UnsupportedError("This folder has no tokenizer, so it cannot read text.")
    return model.tokenizer


def text_stack(model: TaskModel) -> Any:
    """Returns the stack of the model that reads text."""
    reads = model.encoder is not None and not isinstance(
        model.encoder.spec.embed, AudioFramesSpec | PatchEmbeddingSpec
    )
    return model.encoder if reads or model.decoder is None else model.decoder


def longest(model: TaskModel, max_length: int | None = None) -> int | None:
    """Returns the maximum number of tokens of a text, or None if there is no limit.

    It is the smaller of the requested length (or else the tokenizer's) and the number of positions.
    """
    positions = context_length(text_stack(model))
    if max_length is not None and positions is not None and max_length > positions:
        raise ConfigError(
            f"A length of {max_length} tokens exceeds the model's {positions} positions."
        )
    if max_length is None:
        max_length = require_tokenizer(model).max_length
    limits = [limit for limit in (max_length, positions) if limit is not None]
    return min(limits, default=None)
