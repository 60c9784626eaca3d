"""Text embeddings: vectors that are close for similar texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.core import Transformer
from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.spec import AudioFramesSpec, PatchEmbeddingSpec
from glassformer.tasks.batching import (
    encode_texts,
    map_batched,
    predict_batched,
    raise_errors,
    require_iterable,
)
from glassformer.tasks.model_protocol import TaskModel, longest, require_tokenizer
from glassformer.tasks.packing import can_pack, states_of_texts
from glassformer.tasks.pooling import Pooling
from glassformer.tasks.registry import TrainingData, task
from glassformer.tasks.task_cache import cached_task
from glassformer.text import TextEncoding
from glassformer.text.unknown import warned

Vector = NDArray[np.float32]


class EmbedderOptions(TypedDict, total=False):
    """The keyword arguments of `embed`."""

    pooling: Pooling | str | Sequence[str] | None
    normalize: bool | None
    prompt: str | None
    max_length: int | None


@overload
def embed(
    model: TaskModel, texts: str | Sequence[str], **options: Unpack[EmbedderOptions]
) -> Vector: ...


@overload
def embed(
    model: TaskModel, texts: Iterator[str], **options: Unpack[EmbedderOptions]
) -> Iterator[Vector]: ...


def embed(
    model: TaskModel,
    texts: str | Sequence[str] | Iterator[str],
    *,
    pooling: Pooling | str | Sequence[str] | None = None,
    normalize: bool | None = None,
    prompt: str | None = None,
    max_length: int | None = None,
) -> Vector | Iterator[Vector]:
    """Computes one vector per text.

    Args:
        model: The model.
        texts: A text, a list or an iterator of texts.
        pooling: The pooling, or the names of its `modes`. The default is the model's own, or the
            mean if its folder does not set one.
        normalize: Whether to scale vectors to length 1.
        prompt: The name of one of the model's prompts ("query").
        max_length: The maximum number of tokens; longer texts are truncated.

    Returns:
        For a text its vector, [width]; for a list, [text, width]; for an iterator, an iterator of
        vectors.
    """
    embedder = cached_task(
        model,
        Embedder.of,
        pooling=pooling,
        normalize=normalize,
        prompt=prompt,
        max_length=max_length,
    )
    if isinstance(texts, str):
        return next(raise_errors(embedder([texts])))
    if isinstance(texts, Iterator):
        return raise_errors(embedder(texts), model)
    vectors = list(raise_errors(embedder(require_iterable(texts))))
    return np.stack(vectors) if vectors else np.zeros((0, embedder.width), np.float32)


@dataclass
@task(
    "embed",
    head="pooler",
    objective="contrastive",
    training=TrainingData(
        columns={
            "text": ("anchor", "query", "question", "sentence1", "text1", "premise"),
            "positive": ("answer", "passage", "sentence2", "text2", "paraphrase", "hypothesis"),
        },
        optional={"negative": ("negatives",)},
        metric="mrr",
        evaluation="embedding",
        format="tsv",
    ),
)
class Embedder:
    """Converts texts to vectors with a pooling.

    `words` is the prompt put before each text; `cut` counts the texts that were truncated.
    """

    model: TaskModel
    pooling: Pooling
    words: str
    length: int | None
    cut: int = 0

    @classmethod
    def of(
        cls,
        model: TaskModel,
        pooling: Pooling | str | Sequence[str] | None = None,
        *,
        normalize: bool | None = None,
        prompt: str | None = None,
        max_length: int | None = None,
    ) -> Embedder:
        """Creates an embedder.

        Args:
            model: The model.
            pooling: The pooling, or the names of its `modes`. The default is the model's own, or
                the mean if its folder does not set one.
            normalize: Whether to scale vectors to length 1.
            prompt: The name of one of the model's prompts ("query").
            max_length: The maximum number of tokens; longer texts are truncated.
        """
        require_text(model)
        own = model.pooling or Pooling()
        if isinstance(pooling, Pooling):
            own = pooling
        elif pooling is not None:
            own = replace(own, modes=(pooling,) if isinstance(pooling, str) else tuple(pooling))
        if normalize is not None:
            own = replace(own, normalize=normalize)
        if prompt is not None and prompt not in own.prompts:
            known = f"it has {', '.join(own.prompts)}" if own.prompts else "it has none"
            raise ConfigError(f"The model has no prompt {prompt!r}; {known}.")
        limit = longest(model, max_length)
        if max_length is None and own.length is not None:
            limit = min(own.length, limit or own.length)
        return cls(model, own, own.words(prompt), limit)

    @property
    def width(self) -> int:
        return states_width(self.model) * len(self.pooling.modes)

    def __call__(self, texts: Iterable[str]) -> Iterator[Vector | GlassformerError]:
        """Yields vectors in the order of the texts; a text that cannot be read yields an error."""
        return map_batched(texts, self._predict)

    def _predict(self, texts: list[str]) -> list[Vector | GlassformerError]:
        prompted = [self._prompted(text) for text in texts]
        encodings = encode_texts(require_tokenizer(self.model), prompted, self.length)
        packed = can_pack(self.model)
        return predict_batched(self.model, encodings, self._forward, packed=packed)

    def _prompted(self, text: str) -> str:
        """Adds the prompt; an empty text stays empty, so that it is rejected."""
        return self.words + text if isinstance(text, str) and text.strip() else text

    def _forward(self, inputs: dict[str, Tensor], texts: list[TextEncoding]) -> list[Vector]:
        """Runs the model on a batch and pools the hidden states."""
        self.cut += sum(text.cut > 0 for text in texts)
        for text in texts:
            warned(require_tokenizer(self.model).unknown_ratio(text))
        mask = inputs.get("attention_mask")
        if mask is not None and can_pack(self.model):
            states = states_of_texts(self.model, inputs)
        else:
            states = states_of(self.model, **inputs)
        if self.pooling.skip_prompt and self.words:
            if mask is None:
                mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
            mask = mask & (torch.arange(states.shape[1], device=states.device) >= self.skipped())
        found: list[Vector] = list(self.pooling(states, mask).float().cpu().numpy())
        return found

    def skipped(self) -> int:
        """Returns the number of tokens before the text itself, including special ones."""
        prompt = require_tokenizer(self.model).encode(self.words)
        return max(i + 1 for i, special in enumerate(prompt.special_mask) if not special)


def require_text(model: TaskModel) -> None:
    stack = model.spec.encoder or model.spec.last_stack
    if isinstance(stack.embed, AudioFramesSpec | PatchEmbeddingSpec):
        raise UnsupportedError(
            f"embed reads texts, and {model.architecture} reads sound or images."
        )


def states_of(
    model: Transformer, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Any
) -> Tensor:
    """Returns the last hidden states, [text, position, width].

    For an encoder-decoder they are the encoder's.
    """
    if model.spec.encoder is not None and model.spec.decoder is not None:
        return model.encode(input_ids, attention_mask)
    hidden: Tensor = model(input_ids, attention_mask, heads=(), **more).last_hidden_state
    return hidden


def states_width(model: TaskModel) -> int:
    return (model.spec.encoder or model.spec.last_stack).out_width
