"""Initialization of a model's token embeddings from word vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.core.linear import EmbeddingTable
from glassformer.errors import InputError, UnsupportedError
from glassformer.model import Model
from glassformer.text import Tokenizer
from glassformer.word_vectors.space import Vectors


def start_embedding(model: Model, vectors: Vectors) -> int:
    """Copies word vectors into the rows of matching tokens in the model's embedding tables.

    A token matches by its text without surrounding spaces, as it is or else in lowercase. An
    encoder-decoder may have two tables.

    Args:
        model: The model, which has a tokenizer.
        vectors: The word vectors.

    Returns:
        The number of initialized rows.
    """
    if model.tokenizer is None:
        raise UnsupportedError(
            "Word vectors are matched to tokens by their text, and the model has no tokenizer."
        )
    sides = ((model.encoder, model.tokenizer), (model.decoder, model.tokenizer.target_tokenizer))
    tables: dict[Tensor, Tokenizer] = {}  # a shared table occurs once
    for stack, tokenizer in sides:
        if stack is not None:
            lookup = getattr(stack.embed, "token", None)
            if not isinstance(lookup, EmbeddingTable):
                raise UnsupportedError(
                    "This model has no plain table of token embeddings to initialize."
                )
            tables.setdefault(lookup.weight, tokenizer)
    return sum(started(table, tokenizer, vectors) for table, tokenizer in tables.items())


def started(table: Tensor, tokenizer: Tokenizer, vectors: Vectors) -> int:
    width = table.shape[1]
    if width != vectors.size:
        raise InputError(
            f"The vectors have {vectors.size} numbers, and the rows of the model's table {width}; "
            f"train vectors of that size (--vector-size {width}) or choose a hidden size of "
            f"{vectors.size}."
        )
    pairs = []
    for id in range(min(tokenizer.size, len(table))):
        text = tokenizer.decode([id], special=True).strip()
        place = vectors.number.get(text, vectors.number.get(text.lower()))
        if place is not None:
            pairs.append((id, place))
    if pairs:
        ids, places = map(list, zip(*pairs, strict=True))
        with torch.no_grad():
            table[ids] = torch.from_numpy(vectors.table[places]).to(table)
    return len(pairs)
