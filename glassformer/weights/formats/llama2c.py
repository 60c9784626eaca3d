"""Header and tensor layout of llama2.c files, and the equivalent config.json.

    version 0: 7 integers, then float32 tensors, each kind for all layers in turn
    version 1: "ak42" as an integer, 1, the 7 integers, a flag, zeros up to byte 256, the tensors

The rotation tables of version 0 are skipped, as llama2.c itself skips them: theta is 10,000.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import LoadError
from glassformer.weights.formats.gguf_names import Undo, halves, same
from glassformer.weights.formats.tensor_file import SingleFile

NUMBERS = struct.Struct("<7i")
MAGIC, START, VERSION = struct.pack("<I", 0x616B3432), 256, 1
ROTATIONS = ("cosines", "sines")


@dataclass(frozen=True, kw_only=True)
class Llama2cHeader:
    """The sizes in the header of a llama2.c file."""

    width: int
    inner: int
    layers: int
    heads: int
    key_heads: int
    vocabulary: int
    length: int
    tied: bool
    start: int  # offset of the first tensor

    @property
    def plausible(self) -> bool:
        """Whether all sizes are positive and consistent."""
        sizes = (self.width, self.inner, self.layers, self.heads, self.key_heads, self.length)
        return (
            min(*sizes, self.vocabulary) > 0
            and self.width % (2 * self.heads) == 0
            and self.heads % self.key_heads == 0
        )


def read_header(begin: bytes) -> Llama2cHeader | str:
    """Parses the header; returns a description of the problem if it is invalid."""
    if begin[:4] == MAGIC:
        if len(begin) < START:
            return "ends inside its header; get it again"
        version = int.from_bytes(begin[4:8], "little")
        if version != VERSION:
            return f"is a llama2.c file of version {version}; the versions 0 and {VERSION} are read"
        numbers = NUMBERS.unpack_from(begin, 8)
        tied, start = bool(begin[8 + NUMBERS.size]), START
    elif len(begin) < NUMBERS.size:
        return "ends inside its header; get it again"
    else:
        numbers = NUMBERS.unpack_from(begin)
        tied, start = numbers[5] > 0, NUMBERS.size
    width, inner, layers, heads, key_heads, vocabulary, length = numbers
    header = Llama2cHeader(
        width=width, inner=inner, layers=layers, heads=heads, key_heads=key_heads,
        vocabulary=abs(vocabulary), length=length, tied=tied, start=start,
    )  # fmt: skip
    if not header.plausible:
        return "is not a llama2.c file; of a model with pytorch_model.bin, load the folder"
    return header


def config_of(header: Llama2cHeader) -> dict[str, Any]:
    """Returns the config.json equivalent of the header."""
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": header.vocabulary,
        "hidden_size": header.width,
        "intermediate_size": header.inner,
        "num_hidden_layers": header.layers,
        "num_attention_heads": header.heads,
        "num_key_value_heads": header.key_heads,
        "max_position_embeddings": header.length,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": header.tied,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def layout(header: Llama2cHeader) -> Iterator[tuple[str, tuple[int, ...], Undo]]:
    """Yields the tensors in file order: published name, shape, and the function that restores the
    published layout.
    """
    width, dim = header.width, header.width // header.heads
    narrow = header.key_heads * dim
    norms = (("input_layernorm", (width,)), ("post_attention_layernorm", (width,)))
    attention = (
        ("self_attn.q_proj", (width, width)),
        ("self_attn.k_proj", (narrow, width)),
        ("self_attn.v_proj", (narrow, width)),
        ("self_attn.o_proj", (width, width)),
    )
    ffn = (
        ("mlp.gate_proj", (header.inner, width)),
        ("mlp.down_proj", (width, header.inner)),
        ("mlp.up_proj", (header.inner, width)),
    )
    words = ("model.embed_tokens.weight", (header.vocabulary, width), same)
    last = ("model.norm.weight", (width,), same)
    turned = {
        "self_attn.q_proj": partial(halves, heads=header.heads),
        "self_attn.k_proj": partial(halves, heads=header.key_heads),
    }

    def layers(*parts: tuple[str, tuple[int, ...]]) -> Iterator[tuple[str, tuple[int, ...], Undo]]:
        for part, shape in parts:
            for i in range(header.layers):
                yield f"model.layers.{i}.{part}.weight", shape, turned.get(part, same)

    if header.start == START:
        yield from layers(*norms)
        yield last
        yield words
        yield from layers(*attention, *ffn)
    else:
        yield words
        yield from layers(norms[0], *attention, norms[1], *ffn)
        yield last
        for name in ROTATIONS:
            yield name, (header.length, dim // 2), same
    if not header.tied:
        yield "lm_head.weight", (header.vocabulary, width), same


class Llama2cFile(SingleFile):
    """A llama2.c file."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise LoadError(f"{path} cannot be read ({error}).") from None
        header = read_header(self.map[:START])
        if isinstance(header, str):
            raise LoadError(f"{path} {header}.")
        self.config = config_of(header)
        self.origins = {}
        self.shapes = {}
        end = header.start
        for name, shape, undo in layout(header):
            if name not in ROTATIONS:
                self.origins[name] = end, undo
                self.shapes[name] = shape
            end += 4 * math.prod(shape)
            if end > len(self.map):
                break
        if end > len(self.map):
            raise LoadError(
                f"{path} is cut off: {name} ends at byte {end:,} of {len(self.map):,}; get it "
                "again, or, if it is no llama2.c file, load the folder it is in."
            )
        if end < len(self.map):
            raise LoadError(
                f"{path} has {len(self.map):,} bytes, and by its header {end:,}; get it again."
            )

    def read(self, name: str, mapped: bool) -> Tensor:
        start, undo = self.origins[name]
        shape = self.shapes[name]
        flat = torch.frombuffer(
            self.map, dtype=torch.float32, count=math.prod(shape), offset=start
        ).view(shape)
        return undo(flat if mapped else flat.clone())
