"""The sizes of the pages of a Parquet file, from their headers.

pyarrow allocates the size that a page's header names before it reads the page, and offers no limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

HEADER_BYTES = 2**16  # more than the header of any page, whose statistics are short
STOP, TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
INTEGERS = 4, 5, 6
MOST_NESTED = 16


class PageSize(NamedTuple):
    """What a page's header names, in bytes."""

    uncompressed: int
    compressed: int


def page_sizes(stream: BinaryIO, metadata: Any) -> Iterator[PageSize]:
    """Yields the sizes of all pages.

    Args:
        stream: The file.
        metadata: pyarrow's `FileMetaData` of the file.

    Raises:
        ValueError: A header is not one of Parquet's.
    """
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            first = column.data_page_offset
            if column.has_dictionary_page and 0 < column.dictionary_page_offset < first:
                first = column.dictionary_page_offset
            end = first + column.total_compressed_size
            while first < end:
                stream.seek(first)
                header = CompactReader(stream.read(min(HEADER_BYTES, end - first)))
                fields = header.struct()
                size = PageSize(fields.get(2, 0), fields.get(3, 0))
                if min(size) < 0:
                    raise ValueError("a page has a negative size")
                yield size
                first += header.at + size.compressed


class CompactReader:
    """Reads a struct in Thrift's compact protocol, of which only integers are kept."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise ValueError("the header of a page ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a number in the header of a page has no end")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self, depth: int = 0) -> dict[int, int]:
        """Returns the integers of a struct by the numbers of their fields."""
        fields: dict[int, int] = {}
        number = 0
        while (head := self.byte()) != STOP:
            number = number + (head >> 4) if head >> 4 else self.integer()
            if head & 15 in INTEGERS:
                fields[number] = self.integer()
            else:
                self.skip(head & 15, depth + 1)
        return fields

    def skip(self, kind: int, depth: int) -> None:
        if depth > MOST_NESTED:
            raise ValueError("the header of a page is nested too deeply")
        if kind in INTEGERS:
            self.varint()
        elif kind == BYTE:
            self.byte()
        elif kind == DOUBLE:
            self.at += 8
        elif kind == BINARY:
            length = self.varint()
            self.at += length
        elif kind == STRUCT:
            self.struct(depth)
        elif kind in (LIST, SET):
            head = self.byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self.varint()):
                self.skip(BYTE if head & 15 in (TRUE, FALSE) else head & 15, depth + 1)
        elif kind not in (TRUE, FALSE):
            raise ValueError(f"the header of a page has the unknown type {kind}")
