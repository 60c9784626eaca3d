"""The results of encoding: `TextEncoding` for one text and `BatchEncoding` for a batch."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, overload

import torch
from tokenizers import Encoding
from torch import Tensor

from glassformer.errors import ConfigError, InputError


@dataclass(frozen=True, kw_only=True)
class TextEncoding:
    """The tokens of one text or a pair of texts; every list has one entry per token."""

    ids: list[int]
    tokens: list[str]
    segments: list[int]
    offsets: list[tuple[int, int]]
    """Start and end in the original text, as a Python slice; (0, 0) for special tokens."""
    sequence: list[int | None]
    """0 for the first text, 1 for the second, None for a token that is in neither."""
    special_mask: list[bool]
    """True where the tokenizer added the token."""
    words: list[int | None]
    """The index, within its text, of the word that contains the token; None if it is unknown."""
    cut: int = 0
    """The number of tokens that truncation removed."""

    @classmethod
    def of(cls, encoding: Encoding) -> "TextEncoding":
        """Converts an encoding of the `tokenizers` library."""
        return cls(
            ids=encoding.ids,
            tokens=encoding.tokens,
            segments=encoding.type_ids,
            offsets=encoding.offsets,
            sequence=encoding.sequence_ids,
            special_mask=[bool(flag) for flag in encoding.special_tokens_mask],
            words=encoding.word_ids,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, positions: Sequence[int]) -> "TextEncoding":
        """Returns the encoding that consists of the tokens at these positions."""
        return TextEncoding(
            ids=[self.ids[i] for i in positions],
            tokens=[self.tokens[i] for i in positions],
            segments=[self.segments[i] for i in positions],
            offsets=[self.offsets[i] for i in positions],
            sequence=[self.sequence[i] for i in positions],
            special_mask=[self.special_mask[i] for i in positions],
            words=[self.words[i] for i in positions],
        )

    @classmethod
    def concatenate(cls, parts: Sequence["TextEncoding"]) -> "TextEncoding":
        """Concatenates encodings."""
        joined: dict[str, Any] = {
            name: [x for part in parts for x in getattr(part, name)] for name in FIELDS
        }
        return cls(**joined)

    def framed(self, before: list[tuple[str, int]], after: list[tuple[str, int]]) -> "TextEncoding":
        """Returns the encoding with special tokens, given as (token, id) pairs, around it."""
        first, last = len(before), len(after)
        tokens = [*before, *zip(self.tokens, self.ids, strict=True), *after]
        return TextEncoding(
            ids=[id for _, id in tokens],
            tokens=[token for token, _ in tokens],
            segments=[*[0] * first, *self.segments, *[0] * last],
            offsets=[*[(0, 0)] * first, *self.offsets, *[(0, 0)] * last],
            sequence=[*[None] * first, *self.sequence, *[None] * last],
            special_mask=[*[True] * first, *self.special_mask, *[True] * last],
            words=[*[None] * first, *self.words, *[None] * last],
        )

    def truncated(self, max_length: int, side: str) -> "TextEncoding":
        """Truncates to at most `max_length` tokens.

        Special tokens stay; the longer text of a pair is shortened first.
        """
        if len(self) <= max_length:
            return self
        special = [i for i, flag in enumerate(self.special_mask) if flag]
        if len(special) > max_length:
            raise ConfigError(
                f"max_length={max_length} cannot hold the {len(special)} special tokens "
                "that this tokenizer adds; raise it, or encode with special=False."
            )
        first, second = (
            [i for i, s in enumerate(self.sequence) if s == text and not self.special_mask[i]]
            for text in (0, 1)
        )
        capacity = split_capacity(len(first), len(second), max_length - len(special))
        kept = [cut(text, size, side) for text, size in zip((first, second), capacity, strict=True)]
        whole = self.take(sorted([*special, *kept[0], *kept[1]]))
        return replace(whole, cut=len(self) - len(whole))


FIELDS = tuple(field.name for field in fields(TextEncoding) if field.name != "cut")  # one per token


def split_capacity(first: int, second: int, capacity: int) -> tuple[int, int]:
    """Returns how many tokens of each text fit into `capacity`.

    The longer text is shortened first, then both evenly.
    """
    shorter, longer = sorted((first, second))
    if shorter + longer > capacity:
        longer = max(shorter, capacity - shorter)
        if shorter + longer > capacity:
            shorter, longer = capacity // 2, capacity - capacity // 2
    return (longer, shorter) if first > second else (shorter, longer)


def cut(positions: list[int], size: int, side: str) -> list[int]:
    return positions[:size] if side == "right" else positions[len(positions) - size :]


class LazyEncodings(Sequence[TextEncoding]):
    """A sequence of encodings that become `TextEncoding` objects when they are accessed.

    Building the lists of many texts at once would cost more time in Python's garbage collector
    than tokenization takes.
    """

    def __init__(self, encodings: Sequence[Encoding]) -> None:
        self._encodings = encodings

    def __len__(self) -> int:
        return len(self._encodings)

    @overload
    def __getitem__(self, place: int) -> TextEncoding: ...
    @overload
    def __getitem__(self, place: slice) -> "LazyEncodings": ...
    def __getitem__(self, place: int | slice) -> "TextEncoding | LazyEncodings":
        if isinstance(place, slice):
            return LazyEncodings(self._encodings[place])
        return TextEncoding.of(self._encodings[place])


@dataclass(frozen=True, kw_only=True)
class BatchEncoding:
    """Texts as tensors whose rows all have the same length."""

    tokens: Tensor  # [batch, position] long
    mask: Tensor  # [batch, position] bool, True at real tokens
    segments: Tensor | None  # [batch, position] long; None where the family has no segments
    encoded: list[TextEncoding]

    @classmethod
    def of(
        cls,
        encoded: list[TextEncoding],
        *,
        pad: int,
        length: int | None,
        side: str,
        segments: int | None,
    ) -> "BatchEncoding":
        """Pads encodings into tensors.

        Args:
            encoded: The encodings, one per row.
            pad: The id of the padding token.
            length: The length of the rows; None takes the longest encoding.
            side: The side to pad: "left" or "right".
            segments: The segment id of padding; None if the model has no segments.
        """
        longest = max(len(row) for row in encoded)
        width = longest if length is None else length
        if longest > width:
            raise InputError(
                f"A text has {longest} tokens and does not fit pad_to={width}; "
                f"give max_length={width} to truncate it."
            )

        def padded(rows: list[list[int]], fill: int) -> Tensor:
            table = torch.full((len(rows), width), fill, dtype=torch.long)
            for i, row in enumerate(rows):
                start = 0 if side == "right" else width - len(row)
                table[i, start : start + len(row)] = torch.tensor(row, dtype=torch.long)
            return table

        return cls(
            tokens=padded([row.ids for row in encoded], pad),
            mask=padded([[1] * len(row) for row in encoded], 0).bool(),
            segments=None
            if segments is None
            else padded([row.segments for row in encoded], segments),
            encoded=encoded,
        )
