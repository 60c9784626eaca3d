"""Reads OpenAI's `.tiktoken` BPE tables.

Each line is a token in base 64 and its rank. The file has no merges: the merge of a token is the
pair of parts that its bytes split into when only earlier tokens are known. It is read here,
because the package tiktoken has no merges to give, either.
"""

import base64
import binascii
from itertools import pairwise
from pathlib import Path

from glassformer.errors import LoadError
from glassformer.text.loading.files import read_lines


def read_tiktoken(path: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Returns the vocabulary and the merges, with bytes as the letters of byte-level models."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(read_lines(path), start=1):
        try:
            token, rank = line.split()
            # Whisper's table reserves a rank for an empty token, which is written "=".
            ranks[base64.b64decode(token, validate=token != "=")] = int(rank)
        except (ValueError, binascii.Error):
            raise LoadError(
                f"Line {number} of {path} is not a token in base 64 and its number: {line!r}."
            ) from None
    letters = byte_letters()

    def text(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    in_order = sorted(ranks, key=ranks.__getitem__)
    parts = [split(token, ranks) for token in in_order if len(token) > 1]
    merges = [(text(pair[0]), text(pair[1])) for pair in parts if len(pair) == 2]
    return {text(token): rank for token, rank in ranks.items()}, merges


def split(token: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    """Splits a token with the merges of earlier tokens."""
    parts = [bytes([byte]) for byte in token]
    last = ranks[token]
    while len(parts) > 2:
        joined = [ranks.get(left + right, last) for left, right in pairwise(parts)]
        first = min(joined)
        if first >= last:
            break
        at = joined.index(first)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def byte_letters() -> list[str]:
    """Returns a visible letter for every byte: its own if it has one, else one above U+0100."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(others)) for byte in range(256)]
