"""CTranslate2's model.bin of a Whisper model, read as the published checkpoint.

The file has a version, the name of the specification, and the variables: name, shape, dtype and
data of each; then aliases. Whole numbers are weights times the scale of their row.
"""

from __future__ import annotations

import math
import mmap
import struct
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import LoadError
from glassformer.text.backends.whisper import start_id
from glassformer.weights.formats.tensor_file import SingleFile

VERSION = 6
SPEC = "WhisperSpec"
MOST_VARIABLES, MOST_AXES = 100_000, 8
DTYPES = (
    torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16
)  # fmt: skip
ATTENTION = {
    "self_attention": ("self_attn", (("q_proj", "k_proj", "v_proj"), ("out_proj",))),
    "attention": ("encoder_attn", (("q_proj",), ("k_proj", "v_proj"), ("out_proj",))),
}
NORMS = {
    "self_attention": "self_attn_layer_norm",
    "attention": "encoder_attn_layer_norm",
    "ffn": "final_layer_norm",
}
LEAVES = {"gamma": "weight", "beta": "bias", "weight": "weight", "bias": "bias"}


def is_ctranslate2(path: Path) -> bool:
    """Whether a file is CTranslate2's model.bin."""
    if path.name != "model.bin" or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(64)
    if len(head) < 6:
        return False
    version, length = struct.unpack_from("<IH", head)
    name = head[6 : 6 + length]
    return 2 <= version <= 99 and name.endswith(b"\0") and name[:-1].isalnum()


class CTranslate2File(SingleFile):
    """A Whisper model in CTranslate2's format."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.place = 0
        self.variables: dict[str, Tensor] = {}
        try:
            self._parse()
            self.config = self._config()
            self.tensors = self._published()
        except (struct.error, UnicodeDecodeError, KeyError, IndexError, ValueError) as error:
            if isinstance(error, LoadError):
                raise
            raise LoadError(
                f"{path} is a damaged CTranslate2 file ({error or 'it ends too early'}); get it "
                "again."
            ) from None
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    def read(self, name: str, mapped: bool) -> Tensor:
        tensor = self.tensors[name]
        return tensor if mapped else tensor.clone()

    def dtype(self, name: str) -> torch.dtype:
        return self.tensors[name].dtype

    # --- the file --------------------------------------------------------------------------------

    def _parse(self) -> None:
        version = self._number("I")
        spec = self._name() if version >= 2 else ""
        if version > VERSION or spec != SPEC:
            raise LoadError(
                f"{self.path} is a CTranslate2 model of {spec or 'an old kind'} in version "
                f"{version}; {SPEC} up to version {VERSION} is read."
            )
        self._number("I")  # the revision of the specification
        count = self._number("I")
        if count > MOST_VARIABLES:
            raise ValueError(f"it claims {count:,} variables")
        for _ in range(count):
            name, axes = self._name(), self._number("B")
            if axes > MOST_AXES:
                raise ValueError(f"{name} has {axes} axes")
            shape = [self._number("I") for _ in range(axes)]
            kind, size = self._number("B"), self._number("I")
            dtype = DTYPES[kind]
            if math.prod(shape) * dtype.itemsize != size or self.place + size > len(self.map):
                raise ValueError(f"{name} has the shape {shape} and {size:,} bytes")
            values = (
                torch.frombuffer(self.map, dtype=torch.uint8, count=size, offset=self.place)
                if size
                else torch.empty(0, dtype=torch.uint8)
            )
            self.variables[name] = _aligned(values, dtype).view(shape)
            self.place += size
        for _ in range(self._number("I")):
            alias, name = self._name(), self._name()
            self.variables[alias] = self.variables[name]
        if self.place != len(self.map):
            raise ValueError(f"{len(self.map) - self.place:,} bytes follow its end")

    def _number(self, form: str) -> int:
        value: int = struct.unpack_from(f"<{form}", self.map, self.place)[0]
        self.place += struct.calcsize(f"<{form}")
        return value

    def _name(self) -> str:
        length = self._number("H")
        data = self.map[self.place : self.place + length]
        if len(data) != length:
            raise ValueError("it ends inside a name")
        self.place += length
        return data.rstrip(b"\0").decode()

    # --- as the published checkpoint -------------------------------------------------------------

    def _config(self) -> dict[str, Any]:
        words = self.variables["decoder/embeddings/weight"]
        bands = self.variables["encoder/conv1/weight"].shape[1]
        size, width = words.shape
        start = start_id(size)
        sides: dict[str, int] = {}
        for side in ("encoder", "decoder"):
            heads = self.variables.get(f"{side}/num_heads")
            sides |= {
                f"{side}_layers": self._layers(side),
                f"{side}_attention_heads": width // 64 if heads is None else int(heads),
                f"{side}_ffn_dim": self.variables[f"{side}/layer_0/ffn/linear_0/weight"].shape[0],
            }
        return {
            "model_type": "whisper",
            "architectures": ["WhisperForConditionalGeneration"],
            "vocab_size": size,
            "d_model": width,
            "num_mel_bins": bands,
            "max_source_positions": len(self._table("encoder")),
            "max_target_positions": len(self._table("decoder")),
            **sides,
            **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), start - 1),
            "decoder_start_token_id": start,
        }

    def _layers(self, side: str) -> int:
        names = (name.split("/") for name in self.variables)
        return len(
            {name[1] for name in names if name[0] == side and name[1][:6] == "layer_"}
            - {"layer_norm"}
        )

    def _table(self, side: str) -> Tensor:
        return self.variables[f"{side}/position_encodings/encodings"]

    def _published(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {
            "model.decoder.embed_tokens.weight": self._weight("decoder/embeddings/weight"),
        }
        for convolution in ("conv1", "conv2"):
            for leaf in ("weight", "bias"):
                variable = f"encoder/{convolution}/{leaf}"
                found[f"model.encoder.{convolution}.{leaf}"] = self._weight(variable)
        for side in ("encoder", "decoder"):
            found[f"model.{side}.embed_positions.weight"] = self._table(side)
            for ours in ("gamma", "beta"):
                norm = self.variables[f"{side}/layer_norm/{ours}"]
                found[f"model.{side}.layer_norm.{LEAVES[ours]}"] = norm
            for layer in range(self._layers(side)):
                parts = ["self_attention", "ffn"] + ["attention"] * (side == "decoder")
                for part in parts:
                    found |= self._part(side, layer, part)
        return found

    def _part(self, side: str, layer: int, part: str) -> dict[str, Tensor]:
        """Returns the tensors of attention or of the feed-forward part of a layer."""
        before, base = f"{side}/layer_{layer}/{part}", f"model.{side}.layers.{layer}"
        found = {
            f"{base}.{NORMS[part]}.{LEAVES[ours]}": self.variables[f"{before}/layer_norm/{ours}"]
            for ours in ("gamma", "beta")
        }
        if part == "ffn":
            for place, name in enumerate(("fc1", "fc2")):
                for leaf in ("weight", "bias"):
                    found[f"{base}.{name}.{leaf}"] = self._weight(f"{before}/linear_{place}/{leaf}")
            return found
        module, joined = ATTENTION[part]
        for place, names in enumerate(joined):
            for leaf in ("weight", "bias"):
                rows = self._weight(f"{before}/linear_{place}/{leaf}").chunk(len(names))
                for name, tensor in zip(names, rows, strict=True):
                    if (name, leaf) != ("k_proj", "bias"):  # zeros, for Whisper has none
                        found[f"{base}.{module}.{name}.{leaf}"] = tensor
        return found

    def _weight(self, name: str) -> Tensor:
        """Returns a variable as floats."""
        tensor = self.variables[name]
        if tensor.is_floating_point():
            return tensor
        scale = self.variables[f"{name}_scale"].float()
        return tensor.float() / scale.view(-1, *[1] * (tensor.ndim - 1))


def _aligned(data: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns bytes as numbers; a copy, because the file does not align them."""
    return data.clone().view(dtype)
