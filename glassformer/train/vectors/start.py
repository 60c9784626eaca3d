"""Vectors, as a start: rows of a model's token table that are learned already."""

from __future__ import annotations

import torch

from glassformer.core.linear import Lookup
from glassformer.errors import GlassformerError
from glassformer.model import Model
from glassformer.train.vectors.space import Vectors


def start_embedding(model: Model, vectors: Vectors) -> int:
    """Puts the vector of every token that is a word of theirs into the model's table (both tables,
    where an encoder and a decoder have one each) and says how many there are. The text of a token
    decides, without spaces around it, as it is or else in small letters."""
    if model.tokenizer is None:
        raise GlassformerError("Vectors go by the text of tokens, and the model has no tokenizer.")
    stacks = [stack for stack in (model.net.encoder, model.net.decoder) if stack is not None]
    found = [getattr(stack.embed, "token", None) for stack in stacks]
    tables = [table.weight for table in found if isinstance(table, Lookup)]
    if len(tables) < len(stacks):
        raise GlassformerError("This model has no plain table of tokens that vectors could start.")
    width = tables[0].shape[1]
    if width != vectors.size:
        raise GlassformerError(
            f"The vectors have {vectors.size} numbers, and the rows of the model's table {width}; "
            f"train vectors of that size (--size {width}) or choose a width of {vectors.size}."
        )
    pairs = []
    for id in range(min(model.tokenizer.size, tables[0].shape[0])):
        text = model.tokenizer.decode([id], special=True).strip()
        place = vectors.number.get(text, vectors.number.get(text.lower()))
        if place is not None:
            pairs.append((id, place))
    if pairs:
        ids, places = map(list, zip(*pairs, strict=True))
        rows = torch.from_numpy(vectors.table[places])
        with torch.no_grad():
            for table in tables:
                table[ids] = rows.to(table)
    return len(pairs)
