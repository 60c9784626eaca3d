"""Conversion of the files that Meta (Llama) and Mistral publish for their own programs.

`params.json` and the tensors of `consolidated.*` are converted to the config.json and the tensors
of the published folder. Meta splits a large model into parts for several devices: each part has
some rows or columns of every matrix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import LoadError, UnsupportedError
from glassformer.storage.parsing import read_json
from glassformer.weights.formats.gguf_names import halves
from glassformer.weights.formats.pickle import PickleFile
from glassformer.weights.formats.safetensors import SafetensorsFile
from glassformer.weights.formats.tensor_file import TensorFile

PARAMS = "params.json"
NAMES = {  # a part of a layer, and the axis along which it is split
    "attention.wq": ("self_attn.q_proj", 0),
    "attention.wk": ("self_attn.k_proj", 0),
    "attention.wv": ("self_attn.v_proj", 0),
    "attention.wo": ("self_attn.o_proj", 1),
    "feed_forward.w1": ("mlp.gate_proj", 0),
    "feed_forward.w2": ("mlp.down_proj", 1),
    "feed_forward.w3": ("mlp.up_proj", 0),
    "attention_norm": ("input_layernorm", None),
    "ffn_norm": ("post_attention_layernorm", None),
}
OUTER = {
    "tok_embeddings": "model.embed_tokens",
    "norm": "model.norm",
    "output": "lm_head",
}
WITHOUT_EFFECT = {  # sizes that the tensors have, and limits of Meta's and Mistral's programs
    "ffn_dim_multiplier", "multiple_of", "hidden_dim", "vocab_size", "max_batch_size",
    "model_parallel_size", "n_layers", "dim", "causal", "tied_embeddings",
}  # fmt: skip
NEEDED = (
    "model.norm.weight",
    "model.embed_tokens.weight",
    "model.layers.0.mlp.gate_proj.weight",
)
READ = {
    "head_dim", "n_heads", "n_kv_heads", "norm_eps", "rope_theta", "sliding_window",
    "max_seq_len", "max_position_embeddings", "use_scaled_rope",
}  # fmt: skip


def read_params(folder: Path) -> dict[str, Any]:
    """Reads params.json; without one, the numbers of heads from config.json."""
    path, config = folder / PARAMS, folder / "config.json"
    keys = {"n_heads": "num_attention_heads", "n_kv_heads": "num_key_value_heads"}
    path, keys = (path, {}) if path.is_file() else (config, keys)
    params: dict[str, Any] = read_json(path)
    if keys:
        params = {local: params.get(hf) for local, hf in keys.items()}
    heads = params.get("n_heads")
    if not _is_count(heads) or not _is_count(params.get("n_kv_heads") or heads):
        raise LoadError(f"{path} gives no number of heads; get it again.")
    return params


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def config_of(params: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Returns the config.json equivalent of params.json.

    Args:
        params: The contents of params.json.
        shapes: The shapes of the tensors by their published names.

    Raises:
        UnsupportedError: If params.json has a key whose effect is not known here.
    """
    odd = [key for key in params if key not in WITHOUT_EFFECT | READ and params[key] is not None]
    if odd or params.get("use_scaled_rope"):
        raise UnsupportedError(
            f"{PARAMS} has {odd[0] if odd else 'use_scaled_rope'!r}, for which a config.json is "
            "needed beside it; get the repository's config.json too.",
            field=odd[0] if odd else "use_scaled_rope",
        )
    heads, window = params["n_heads"], params.get("sliding_window")
    words, width = shapes["model.embed_tokens.weight"]
    length = params.get("max_position_embeddings") or params.get("max_seq_len")
    layers = {match[1] for name in shapes if (match := re.search(r"\.layers\.(\d+)\.", name))}
    config = {
        "model_type": "llama" if window is None else "mistral",
        "architectures": ["LlamaForCausalLM" if window is None else "MistralForCausalLM"],
        "vocab_size": words,
        "hidden_size": width,
        "intermediate_size": shapes["model.layers.0.mlp.gate_proj.weight"][0],
        "num_hidden_layers": len(layers),
        "num_attention_heads": heads,
        "num_key_value_heads": params.get("n_kv_heads") or heads,
        "head_dim": params.get("head_dim") or width // heads,
        "rms_norm_eps": params.get("norm_eps", 1e-5),
        "rope_theta": params.get("rope_theta") or 10_000.0,
        "tie_word_embeddings": "lm_head.weight" not in shapes,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    config |= {} if window is None else {"sliding_window": window}
    return config | ({} if length is None else {"max_position_embeddings": length})


class ConsolidatedFiles(TensorFile):
    """The tensors of all consolidated files of a folder, by their published names."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.params = params = read_params(folder)
        self.parts = [_opened(folder / name) for name in names]
        self.held = {published(name): name for name in self.parts[0].shapes if name != "rope.freqs"}
        for part in self.parts:
            if set(part.shapes) != set(self.parts[0].shapes):
                raise LoadError(f"The consolidated files of {folder} differ in their tensors.")
        heads = params["n_heads"]
        self.heads = {"q_proj": heads, "k_proj": params.get("n_kv_heads") or heads}
        if any(self.held.get(name, name) == name for name in NEEDED):
            raise UnsupportedError(
                f"The consolidated files of {folder} are not those of a Llama or a dense Mistral; "
                "get the model's own config.json and model.safetensors."
            )
        for name in self.held:
            if name.startswith(("model.", "lm_head.")) and not self._fits(name):
                raise LoadError(
                    f"{self.held[name]} in the consolidated files of {folder} does not have the "
                    "shape that params.json and the other tensors give it; get them again."
                )
        self.shapes = {name: self._whole_shape(name) for name in self.held}

    def _fits(self, name: str) -> bool:
        """Whether the parts of a tensor can be joined."""
        shapes = [part.shapes[self.held[name]] for part in self.parts]
        if any(len(shape) != (1 if "norm" in name else 2) for shape in shapes):
            return False
        axis = self._axis(name)
        sizes = [[size for i, size in enumerate(shape) if i != axis] for shape in shapes]
        return all(size == sizes[0] for size in sizes)

    def config(self) -> dict[str, Any]:
        """Returns the config.json equivalent."""
        return config_of(self.params, self.shapes)

    def dtype(self, name: str) -> torch.dtype:
        return self.parts[0].dtype(self.held[name])

    def read(self, name: str, mapped: bool) -> Tensor:
        axis, held = self._axis(name), self.held[name]
        parts = [part.read(held, mapped) for part in self.parts]
        whole = parts[0] if axis is None or len(parts) == 1 else torch.cat(parts, axis)
        heads = self.heads.get(name.split(".")[-2])
        return whole if heads is None else halves(whole, heads)

    def _axis(self, name: str) -> int | None:
        """Returns the axis along which a tensor is split, None if each part has all of it."""
        layer = re.match(r"layers\.\d+\.(.+)\.", self.held[name])
        if layer is not None:
            return NAMES.get(layer[1], ("", None))[1]
        shape = self.parts[0].shapes[self.held[name]]
        if name != "model.embed_tokens.weight":
            return 0 if len(shape) == 2 else None
        (width,) = self.parts[0].shapes[self.held["model.norm.weight"]]
        return 0 if shape[1] == width else 1  # Llama 3 splits the vocabulary, older ones the width

    def _whole_shape(self, name: str) -> tuple[int, ...]:
        axis, shapes = self._axis(name), [part.shapes[self.held[name]] for part in self.parts]
        if axis is None:
            return shapes[0]
        return tuple(
            sum(shape[i] for shape in shapes) if i == axis else size
            for i, size in enumerate(shapes[0])
        )


def published(name: str) -> str:
    """Returns the published name of a tensor; an unknown name is returned unchanged."""
    module, _, leaf = name.rpartition(".")
    layer = re.fullmatch(r"layers\.(\d+)\.(.+)", module)
    if layer is None:
        return f"{OUTER[module]}.{leaf}" if module in OUTER else name
    part = NAMES.get(layer[2])
    return name if part is None else f"model.layers.{layer[1]}.{part[0]}.{leaf}"


def has_published_names(path: Path) -> bool:
    """Whether a file with a name of Meta's has none of its tensors' names.

    Then it is an ordinary file, in which nothing is split or reordered.
    """
    return path.is_file() and all(published(name) == name for name in _opened(path).shapes)


def _opened(path: Path) -> TensorFile:
    return SafetensorsFile(path) if path.suffix == ".safetensors" else PickleFile(path)
