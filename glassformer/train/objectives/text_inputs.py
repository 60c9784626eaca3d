"""Shared functions of objectives on running text: tokenization in pieces and network inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.record import Record, invalid
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.model import Model
from glassformer.rounding import round_up
from glassformer.tasks import windows
from glassformer.text import Tokenizer
from glassformer.train.batches.collate import pad
from glassformer.train.fused_cross_entropy import IGNORE
from glassformer.train.objectives.rows import Example, column_of

Ids = NDArray[np.int64]
IGNORED = IGNORE  # a position without a target
OURS = {"where", "begins", "ends"}  # keys that readers add to the columns of a file
LEAST = 64  # minimum number of targets of a batch, including padding
USUAL_LENGTH = 512  # for a model without a maximum length


def tokenizer_of(model: Model) -> Tokenizer:
    """Returns the model's tokenizer; raises an error if it does not fit the embeddings."""
    if model.tokenizer is None:
        raise ConfigError("The model has no tokenizer; name one in the recipe's [tokenizer].")
    stack = model.spec.encoder or model.spec.last_stack
    if model.tokenizer.size > stack.embed.vocabulary:
        raise ConfigError(
            f"The tokenizer has {model.tokenizer.size} tokens and the model's embedding "
            f"{stack.embed.vocabulary}; create the model with that vocabulary size, or choose "
            "another tokenizer."
        )
    return model.tokenizer


def length_of(model: Model, length: int | None) -> int:
    """Returns the maximum number of tokens of a text.

    It is `length` if that is given, or else what the model's positions allow.
    """
    stack = model.spec.encoder or model.spec.last_stack
    longest = stack.context_length
    if length is not None and longest is not None and length > longest:
        raise ConfigError(
            f"A length of {length} is more than the {longest} positions of {model.architecture}."
        )
    table = stack.embed.position
    default = USUAL_LENGTH if table is None else table.length
    return length or min(default, longest or default)


def require_head(model: Model, name: str, objective: str, such: str) -> None:
    """Raises an error if the model lacks a head.

    Args:
        model: The model.
        name: Name of the head.
        objective: Name of the objective, for the message.
        such: Suggested classes, for the message.
    """
    if all(head.name != name for head in model.spec.heads):
        raise UnsupportedError(
            f"{objective} needs the head {name!r}, and {model.architecture} has "
            f"{', '.join(head.name for head in model.spec.heads) or 'none'}; choose {such}."
        )


def column(record: Record, name: str) -> Any:
    """Returns a column of a record; raises an error if it is missing."""
    if name not in record:
        raise DataError(
            f"{record.get('where', 'A record')} has no column {name!r}, only "
            f"{', '.join(sorted(set(record) - OURS)) or 'none'}; map the column in [data.columns]."
        )
    return record[name]


def text_of(record: Record, name: str = "text") -> str:
    """Returns a column that holds a text; only a part of a longer text may be blank."""
    value = column(record, name)
    whole = record.get("begins", True) and record.get("ends", True)
    return checked(record, name, value) if whole or not isinstance(value, str) else value


def checked(record: Record, name: str, value: Any) -> str:
    """Returns the value; raises an error if it is not a text, or a blank one."""
    if not isinstance(value, str):
        raise invalid(record, f"the {name} is {value!r:.40}, and not a text")
    if not value.strip():
        raise invalid(record, f"the {name} is empty")
    return value


def source_of(record: Record) -> str:
    """Returns the source text; a list of sentences is joined."""
    found = column(record, "source")
    return checked(record, "source", " ".join(found) if _is_list(found) else found)


def targets_of(record: Record) -> list[str]:
    """Returns the target texts; a list contains several correct alternatives."""
    found = column(record, "target")
    return [checked(record, "target", one) for one in (found if _is_list(found) else [found])]


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


class TextFrame:
    """The special tokens that a tokenizer puts before and after a text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        frame = windows.WindowFrame.of(tokenizer)
        self.before, self.behind, self.size = frame.before.ids, frame.behind.ids, len(frame)

    def ids(self, text: str) -> list[int]:
        """Returns the token ids of the text without special tokens."""
        return self.tokenizer.ids(text)

    def add_frame(self, ids: Sequence[int]) -> list[int]:
        return [*self.before, *ids, *self.behind]

    def pieces(self, text: str, length: int) -> Iterator[Example]:
        """Splits a text into pieces of at most `length` tokens, each with special tokens."""
        ids, capacity = self.ids(text), self.capacity(length)
        for start in range(0, len(ids), capacity):
            yield {
                "tokens": np.array(self.add_frame(ids[start : start + capacity]), dtype=np.int32)
            }

    def capacity(self, length: int, size: int | None = None) -> int:
        """Returns the number of text tokens that fit next to the special tokens."""
        capacity = length - (self.size if size is None else size)
        if capacity < 1:
            raise ConfigError(f"A length of {length} leaves no tokens for the text; raise it.")
        return capacity


INPUTS = {
    "segments": "token_type_ids",
    "positions": "position_ids",
    "languages": "language_ids",
}
"""The names that fields of examples have among the inputs of the network."""


def read_inputs(
    examples: Sequence[Example], *fields: str, slots: int | None = None, every: bool = False
) -> dict[str, Tensor]:
    """Returns the inputs of an encoder.

    These are the tokens, other fields of the same length, a mask if there is padding, and document
    numbers if several documents share a row. `slots` is the length of rows; by default that of the
    longest. With `every`, the mask and the numbers are given even if they say nothing.
    """
    tokens, mask = pad(examples, "tokens", length=slots)
    inputs = {"input_ids": tokens}
    if every or not bool(mask.all()):
        inputs["attention_mask"] = mask
    for field in fields:
        inputs[INPUTS[field]], _ = pad(examples, field, length=slots)
    if several_documents(examples, every):
        inputs["document_ids"], _ = pad(examples, "documents", -1, length=slots)
    return inputs


def several_documents(examples: Sequence[Example], may: bool = False) -> bool:
    """Returns whether some row holds more than one document, or with `may` could hold them."""
    documents = column_of(examples, "documents")
    if may:
        return len(documents.values) > 0
    changes = documents.values[1:] != documents.values[:-1]
    return bool((changes & (documents.rows[1:] == documents.rows[:-1])).any())


def count_tokens(examples: Sequence[Example]) -> int:
    return int(column_of(examples, "tokens").lengths.sum())


def target_positions(
    targets: Tensor, few: bool = False, most: int | None = None
) -> dict[str, Tensor]:
    """Returns the targets and their indices in the flattened batch.

    The vocabulary is scored only at these positions. The list is padded with ignored targets to a
    multiple of a 32nd of the batch, with `few` of a quarter, so that a compiled step sees few
    different shapes. It never gets longer than the batch. With `most`, which no batch exceeds, it
    always has that length.
    """
    flat = targets.flatten().numpy()
    at = np.flatnonzero(flat != IGNORED)
    step = max(LEAST, len(flat) // (4 if few else 32))
    spare = -len(at) % step if most is None else round_up(most, LEAST) - len(at)
    spare = min(spare, len(flat) - len(at))
    return {
        "at": torch.from_numpy(np.concatenate((at, np.zeros(spare, at.dtype)))),
        "tokens": torch.from_numpy(np.concatenate((flat[at], np.full(spare, IGNORED)))),
    }


def count(targets: Mapping[str, Tensor]) -> float:
    """Returns the number of targets that are not padding."""
    return float(targets["tokens"].ne(IGNORED).sum())
