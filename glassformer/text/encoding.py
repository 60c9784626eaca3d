"""What encoding gives, for one text or a batch. Encodings come in."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, overload

import torch
from tokenizers import Encoding
from torch import Tensor

from glassformer.errors import GlassformerError


@dataclass(frozen=True, kw_only=True)
class TextEncoding:
    """One text, or a pair of them, as tokens: every field has one entry a token."""

    ids: list[int]
    tokens: list[str]
    segments: list[int]
    offsets: list[tuple[int, int]]
    """Start and end in the original text, as Python slices it; (0, 0) for special tokens."""
    sequence: list[int | None]
    """0 for the first text, 1 for the second, None for a token that stands in neither."""
    special_mask: list[bool]
    """True where the tokenizer added the token."""
    words: list[int | None]
    """The word, counted within its text, that the token is a part of; None where nobody knows."""
    cut: int = 0
    """How many tokens were too many, and are not here."""

    @classmethod
    def of(cls, encoding: Encoding) -> "TextEncoding":
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
    def joined(cls, parts: Sequence["TextEncoding"]) -> "TextEncoding":
        """One after another."""
        joined: dict[str, Any] = {
            name: [x for part in parts for x in getattr(part, name)] for name in FIELDS
        }
        return cls(**joined)

    def framed(self, before: list[tuple[str, int]], after: list[tuple[str, int]]) -> "TextEncoding":
        """With these special tokens, given with their ids, around it."""
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
        """At most `max_length` tokens: special ones stay, the longer text of a pair gives first."""
        if len(self) <= max_length:
            return self
        special = [i for i, flag in enumerate(self.special_mask) if flag]
        if len(special) > max_length:
            raise GlassformerError(
                f"max_length={max_length} cannot hold the {len(special)} special tokens "
                "that this tokenizer adds; raise it, or encode with special=False."
            )
        first, second = (
            [i for i, s in enumerate(self.sequence) if s == text and not self.special_mask[i]]
            for text in (0, 1)
        )
        room = shares(len(first), len(second), max_length - len(special))
        kept = [cut(text, size, side) for text, size in zip((first, second), room, strict=True)]
        whole = self.take(sorted([*special, *kept[0], *kept[1]]))
        return replace(whole, cut=len(self) - len(whole))


FIELDS = tuple(field.name for field in fields(TextEncoding) if field.name != "cut")  # of tokens


def shares(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of each text fit; the longer one gives way first, then both evenly."""
    shorter, longer = sorted((first, second))
    if shorter + longer > room:
        longer = max(shorter, room - shorter)
        if shorter + longer > room:
            shorter, longer = room // 2, room - room // 2
    return (longer, shorter) if first > second else (shorter, longer)


def cut(positions: list[int], size: int, side: str) -> list[int]:
    return positions[:size] if side == "right" else positions[len(positions) - size :]


class LazyEncodings(Sequence[TextEncoding]):
    """Encodings, each of which becomes a `TextEncoding` when it is looked at: of many at a time the
    lists would keep Python's garbage collector busier than the texts do the tokenizer."""

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
    """Texts as tensors, all rows of one length."""

    tokens: Tensor  # [batch, position] long
    mask: Tensor  # [batch, position] bool, True at real tokens
    segments: Tensor | None  # [batch, position] long; None where the family knows no segments
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
        """`segments` is the segment of padding."""
        longest = max(len(row) for row in encoded)
        width = longest if length is None else length
        if longest > width:
            raise GlassformerError(
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
