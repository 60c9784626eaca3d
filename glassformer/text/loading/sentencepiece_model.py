"""Reads SentencePiece's `.model` files.

The file is a protocol buffer: a list of (field number, value), where a value may again be such a
list. Only the few relevant fields are read, so no protobuf library is needed.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from glassformer.errors import LoadError
from glassformer.text.loading.files import read_bytes

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""The character that stands for a space inside a piece."""


class PieceType(IntEnum):
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Algorithm(IntEnum):
    UNIGRAM = 1
    BPE = 2
    WORD = 3
    CHAR = 4


@dataclass(frozen=True, kw_only=True)
class SentencePieceToken:
    text: str
    score: float
    kind: PieceType


@dataclass(frozen=True, kw_only=True)
class SentencePieceModel:
    """The pieces and settings of a SentencePiece model."""

    pieces: list[SentencePieceToken]
    algorithm: Algorithm
    unknown: int
    """The id of the unknown piece."""
    charsmap: bytes
    """The compiled normalization rules; see `unigram_segmenter.Charsmap`."""
    dummy_prefix: bool
    """Whether a space is added before the text."""
    collapse_spaces: bool
    """Whether outer spaces are removed and runs of inner spaces collapsed."""

    @classmethod
    def read(cls, path: Path) -> "SentencePieceModel":
        content = read_bytes(path)
        try:
            return cls.parse(content)
        except (ValueError, IndexError, struct.error):
            raise LoadError(
                f"The file {path} is not a SentencePiece model, or it is cut off; copy it again "
                "(a Llama 3 folder has another kind of tokenizer.model and needs tokenizer.json)."
            ) from None

    @classmethod
    def parse(cls, content: bytes) -> "SentencePieceModel":
        pieces: list[SentencePieceToken] = []
        trainer: dict[int, int | bytes] = {}
        normalizer: dict[int, int | bytes] = {}
        for number, value in fields(content):
            if number == 1:
                entry = dict(fields(data(value)))
                pieces.append(
                    SentencePieceToken(
                        text=data(entry[1]).decode("utf-8") if 1 in entry else "",
                        score=struct.unpack("<f", data(entry.get(2, bytes(4))))[0],
                        kind=PieceType(as_int(entry.get(3, PieceType.NORMAL))),
                    )
                )
            elif number == 2:
                trainer = dict(fields(data(value)))
            elif number == 3:
                normalizer = dict(fields(data(value)))
        unknown = [index for index, piece in enumerate(pieces) if piece.kind is PieceType.UNKNOWN]
        if len(unknown) != 1:
            raise ValueError("a SentencePiece model has exactly one unknown piece")
        return cls(
            pieces=pieces,
            algorithm=Algorithm(as_int(trainer.get(3, Algorithm.UNIGRAM))),
            unknown=unknown[0],
            charsmap=data(normalizer.get(2, b"")),
            dummy_prefix=bool(as_int(normalizer.get(3, 1))),
            collapse_spaces=bool(as_int(normalizer.get(4, 1))),
        )

    def scored(self) -> list[tuple[str, float]]:
        """Returns the pieces with their effective scores.

        A user-defined piece scores higher than its own letters.
        """
        best = max((p.score for p in self.pieces if p.kind is PieceType.NORMAL), default=0.0)
        return [
            (piece.text, len(piece.text.encode("utf-8")) * best - 0.1)
            if piece.kind is PieceType.USER_DEFINED
            else (piece.text, piece.score)
            for piece in self.pieces
        ]

    def texts(self, kind: PieceType) -> list[str]:
        return [piece.text for piece in self.pieces if piece.kind is kind]


def fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields the fields of a protocol buffer message: varints as int, all others as bytes."""
    position = 0
    while position < len(content):
        tag, position = varint(content, position)
        wire_type = tag & 7
        if wire_type == 0:
            value, position = varint(content, position)
            yield tag >> 3, value
            continue
        if wire_type == 1:
            size = 8
        elif wire_type == 2:
            size, position = varint(content, position)
        elif wire_type == 5:
            size = 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if position + size > len(content):
            raise ValueError("the message ends inside a field")
        yield tag >> 3, content[position : position + size]
        position += size


def varint(content: bytes, position: int) -> tuple[int, int]:
    """Decodes an integer in groups of seven bits, lowest first; also returns the next position."""
    value = shift = 0
    while True:
        byte = content[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def data(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes belong")
    return value


def as_int(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("bytes where a number belongs")
    return value
