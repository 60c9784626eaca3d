"""The number formats of GGUF files. Blocks of bytes come in, float32 goes out.

A format cuts each row of a tensor into blocks of equal size. A quantized block holds small whole
numbers (`codes`) and the scales that make them values again; the layouts below say in which order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Blocks = NDArray[Any]  # of a format's layout, one entry a block
Codes = NDArray[Any]  # [block, value], whole numbers of eight bits
Values = NDArray[np.float32]  # [block, value]
CHUNK = 1 << 14  # blocks at a time: what is in between stays small


@dataclass(frozen=True)
class Format:
    name: str
    size: int  # values a block
    layout: np.dtype[Any]  # the bytes of a block
    expand: Callable[[Blocks], Values]

    def dequantize(self, blocks: Blocks) -> Values:
        """The values of these blocks, one after the other."""
        values = np.empty((len(blocks), self.size), np.float32)
        chunk = max(CHUNK, (CHUNK << 5) // self.size)
        for start in range(0, len(blocks), chunk):
            values[start : start + chunk] = self.expand(blocks[start : start + chunk])
        return values.reshape(-1)


def plain(blocks: Blocks) -> Values:
    return blocks.astype(np.float32)[:, None]


def bf16(blocks: Blocks) -> Values:
    """The upper half of a float32."""
    return (blocks.astype(np.uint32) << 16).view(np.float32)[:, None]


def q8_0(blocks: Blocks) -> Values:
    return blocks["codes"].astype(np.float32) * column(blocks, "scale")


def q4_0(blocks: Blocks) -> Values:
    codes = nibbles(blocks["codes"], 16).astype(np.int8) - np.int8(8)
    return codes.astype(np.float32) * column(blocks, "scale")


def q4_1(blocks: Blocks) -> Values:
    codes = nibbles(blocks["codes"], 16).astype(np.float32)
    return codes * column(blocks, "scale") + column(blocks, "least")


def q4_k(blocks: Blocks) -> Values:
    return spread(blocks, nibbles(blocks["codes"], 32))


def q5_k(blocks: Blocks) -> Values:
    # bit i of the byte `high[j]` is the fifth bit of value j in the i-th part of 32
    high = blocks["high"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return spread(blocks, nibbles(blocks["codes"], 32) | high.reshape(len(blocks), -1) << 4)


def q6_k(blocks: Blocks) -> Values:
    # 64 bytes `codes` and 32 bytes `high` make 128 values; the next as many make the rest
    low = nibbles(blocks["codes"], 64)
    pairs = blocks["high"].reshape(-1, 2, 1, 32)
    high = pairs >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    codes = (low | high.reshape(len(blocks), -1) << 4).astype(np.int8) - np.int8(32)
    scales = column(blocks, "scale") * blocks["scales"].astype(np.float32)
    parts: Values = codes.reshape(-1, 16, 16).astype(np.float32) * scales[:, :, None]
    return parts.reshape(len(blocks), -1)


def column(blocks: Blocks, field: str) -> Values:
    """A half-precision number of each block, ready to be combined with its values."""
    return blocks[field].astype(np.float32)[:, None]


def nibbles(codes: Codes, run: int) -> Codes:
    """Of each run of bytes first all the lower halves, then all the upper ones."""
    runs = codes.reshape(len(codes), -1, 1, run)
    halves = runs >> np.array([0, 4], np.uint8)[:, None] & 15
    return halves.reshape(len(codes), -1)


def spread(blocks: Blocks, codes: Codes) -> Values:
    """Eight parts of 32 values, each with a scale and a least value of six bits.

    Twelve bytes keep these: 0 to 3 the scales of the first four parts and 4 to 7 their least
    values, in the lower six bits; 8 to 11 the lower four bits of the other scales and, in the
    upper half, least values, whose upper two bits are the upper two of bytes 0 to 7.
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
UNREAD = {  # formats that are only named, in the error
    6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS",
    17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S",
    23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip
