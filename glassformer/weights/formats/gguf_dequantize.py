"""Number formats of GGUF files and their conversion to float32.

A format divides each row of a tensor into blocks of equal size. A quantized block holds small
integers (`codes`) and the scales that convert them to values; the layouts below give their order.
They are converted here, because the package `gguf` computes in numpy, on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Blocks = NDArray[Any]  # elements have the format's layout, one per block
Codes = NDArray[Any]  # [block, value], 8-bit integers
Values = NDArray[np.float32]  # [block, value]
CHUNK = 1 << 14  # blocks at a time, to keep intermediate arrays small


@dataclass(frozen=True)
class Format:
    """A GGUF number format."""

    name: str
    size: int  # values per block
    layout: np.dtype[Any]  # memory layout of a block
    expand: Callable[[Blocks], Values]

    def dequantize(self, blocks: Blocks) -> Values:
        """Returns the values of these blocks as one flat array."""
        values = np.empty((len(blocks), self.size), np.float32)
        chunk = max(CHUNK, (CHUNK << 5) // self.size)
        for start in range(0, len(blocks), chunk):
            values[start : start + chunk] = self.expand(blocks[start : start + chunk])
        return values.reshape(-1)


def plain(blocks: Blocks) -> Values:
    return blocks.astype(np.float32)[:, None]


def bf16(blocks: Blocks) -> Values:
    """Converts bfloat16, the upper half of a float32."""
    return (blocks.astype(np.uint32) << 16).view(np.float32)[:, None]


def q8_0(blocks: Blocks) -> Values:
    return blocks["codes"].astype(np.float32) * column(blocks, "scale")


def q4_0(blocks: Blocks) -> Values:
    codes = unpack_4bit(blocks["codes"], 16).astype(np.int8) - np.int8(8)
    return codes.astype(np.float32) * column(blocks, "scale")


def q4_1(blocks: Blocks) -> Values:
    codes = unpack_4bit(blocks["codes"], 16).astype(np.float32)
    return codes * column(blocks, "scale") + column(blocks, "least")


def q4_k(blocks: Blocks) -> Values:
    return spread(blocks, unpack_4bit(blocks["codes"], 32))


def q5_k(blocks: Blocks) -> Values:
    # bit i of byte `high[j]` is the fifth bit of value j in the i-th part of 32 values
    high = blocks["high"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return spread(blocks, unpack_4bit(blocks["codes"], 32) | high.reshape(len(blocks), -1) << 4)


def q6_k(blocks: Blocks) -> Values:
    # 64 bytes of `codes` and 32 bytes of `high` give 128 values; the second halves the rest
    low = unpack_4bit(blocks["codes"], 64)
    pairs = blocks["high"].reshape(-1, 2, 1, 32)
    high = pairs >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    codes = (low | high.reshape(len(blocks), -1) << 4).astype(np.int8) - np.int8(32)
    scales = column(blocks, "scale") * blocks["scales"].astype(np.float32)
    parts: Values = codes.reshape(-1, 16, 16).astype(np.float32) * scales[:, :, None]
    return parts.reshape(len(blocks), -1)


def column(blocks: Blocks, field: str) -> Values:
    """Returns a half-precision field of each block as [block, 1], to broadcast over its values."""
    return blocks[field].astype(np.float32)[:, None]


def unpack_4bit(codes: Codes, run: int) -> Codes:
    """Splits each run of `run` bytes into its lower halves, followed by its upper halves."""
    runs = codes.reshape(len(codes), -1, 1, run)
    halves = runs >> np.array([0, 4], np.uint8)[:, None] & 15
    return halves.reshape(len(codes), -1)


def spread(blocks: Blocks, codes: Codes) -> Values:
    """Scales the codes of a K-quant block: 8 parts of 32 values with a 6-bit scale and minimum.

    Scales and minimums are packed into 12 bytes. Bytes 0 to 3 hold the scales of the first four
    parts and bytes 4 to 7 their minimums, in the lower 6 bits. Bytes 8 to 11 hold the lower 4 bits
    of the other scales and, in the upper half, of the other minimums, whose upper 2 bits are the
    upper 2 bits of bytes 0 to 7.
    """
    first, second, third = (blocks["parts"][:, at : at + 4] for at in (0, 4, 8))
    scales = np.hstack((first & 63, third & 15 | first >> 6 << 4)).astype(np.float32)
    least = np.hstack((second & 63, third >> 4 | second >> 6 << 4)).astype(np.float32)
    scales, least = scales * column(blocks, "scale"), least * column(blocks, "least")
    parts = codes.reshape(-1, 8, 32).astype(np.float32) * scales[:, :, None] - least[:, :, None]
    return parts.reshape(len(blocks), -1)


def layout(*fields: tuple[str, str, int]) -> np.dtype[Any]:
    return np.dtype([(name, kind, (n,)) if n > 1 else (name, kind) for name, kind, n in fields])


SCALE, LEAST, PARTS = ("scale", "<f2", 1), ("least", "<f2", 1), ("parts", "u1", 12)
FORMATS: dict[int, Format] = {
    0: Format("F32", 1, np.dtype("<f4"), plain),
    1: Format("F16", 1, np.dtype("<f2"), plain),
    2: Format("Q4_0", 32, layout(SCALE, ("codes", "u1", 16)), q4_0),
    3: Format("Q4_1", 32, layout(SCALE, LEAST, ("codes", "u1", 16)), q4_1),
    8: Format("Q8_0", 32, layout(SCALE, ("codes", "i1", 32)), q8_0),
    12: Format("Q4_K", 256, layout(SCALE, LEAST, PARTS, ("codes", "u1", 128)), q4_k),
    13: Format(
        "Q5_K", 256, layout(SCALE, LEAST, PARTS, ("high", "u1", 32), ("codes", "u1", 128)), q5_k
    ),
    14: Format(
        "Q6_K",
        256,
        layout(("codes", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), SCALE),
        q6_k,
    ),
    30: Format("BF16", 1, np.dtype("<u2"), bf16),
}
UNREAD = {  # unsupported formats, named in the error message
    6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS",
    17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S",
    23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip
