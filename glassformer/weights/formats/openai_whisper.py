"""Conversion of OpenAI's Whisper files: one .pt file with dimensions and tensors.

Dimensions are converted to the config.json, and tensor names to the names, of the published
checkpoint folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from torch import Tensor

from glassformer.errors import LoadError
from glassformer.text.backends.whisper import start_id
from glassformer.weights.formats.pickle import PickleFile, unpickle
from glassformer.weights.formats.tensor_file import SingleFile

DIMS = {
    "n_mels": "num_mel_bins",
    "n_vocab": "vocab_size",
    "n_audio_ctx": "max_source_positions",
    "n_audio_state": "d_model",
    "n_audio_head": "encoder_attention_heads",
    "n_audio_layer": "encoder_layers",
    "n_text_ctx": "max_target_positions",
    "n_text_state": "d_model",
    "n_text_head": "decoder_attention_heads",
    "n_text_layer": "decoder_layers",
}
NAMES = {
    "encoder.conv1": "model.encoder.conv1",
    "encoder.conv2": "model.encoder.conv2",
    "encoder.ln_post": "model.encoder.layer_norm",
    "decoder.ln": "model.decoder.layer_norm",
    "decoder.token_embedding": "model.decoder.embed_tokens",
    "{stack}.blocks.{i}.attn.query": "model.{stack}.layers.{i}.self_attn.q_proj",
    "{stack}.blocks.{i}.attn.key": "model.{stack}.layers.{i}.self_attn.k_proj",
    "{stack}.blocks.{i}.attn.value": "model.{stack}.layers.{i}.self_attn.v_proj",
    "{stack}.blocks.{i}.attn.out": "model.{stack}.layers.{i}.self_attn.out_proj",
    "{stack}.blocks.{i}.attn_ln": "model.{stack}.layers.{i}.self_attn_layer_norm",
    "{stack}.blocks.{i}.cross_attn.query": "model.{stack}.layers.{i}.encoder_attn.q_proj",
    "{stack}.blocks.{i}.cross_attn.key": "model.{stack}.layers.{i}.encoder_attn.k_proj",
    "{stack}.blocks.{i}.cross_attn.value": "model.{stack}.layers.{i}.encoder_attn.v_proj",
    "{stack}.blocks.{i}.cross_attn.out": "model.{stack}.layers.{i}.encoder_attn.out_proj",
    "{stack}.blocks.{i}.cross_attn_ln": "model.{stack}.layers.{i}.encoder_attn_layer_norm",
    "{stack}.blocks.{i}.mlp.0": "model.{stack}.layers.{i}.fc1",
    "{stack}.blocks.{i}.mlp.2": "model.{stack}.layers.{i}.fc2",
    "{stack}.blocks.{i}.mlp_ln": "model.{stack}.layers.{i}.final_layer_norm",
}


def config_of(dims: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the config.json equivalent of `dims`."""
    wrong = [key for key in DIMS if type(dims.get(key)) is not int or dims[key] < 1]
    if wrong:
        raise LoadError(
            f"The .pt file's dims give no number for {', '.join(wrong)}; get the file again."
        )
    if dims["n_audio_state"] != dims["n_text_state"]:
        raise LoadError(
            f"The .pt file's dims are {dims['n_audio_state']} wide for sound and "
            f"{dims['n_text_state']} for text; the two are equal in a Whisper model."
        )
    start = start_id(dims["n_vocab"])
    return {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        **{local: dims[hf] for hf, local in DIMS.items()},
        "encoder_ffn_dim": 4 * dims["n_audio_state"],
        "decoder_ffn_dim": 4 * dims["n_text_state"],
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), start - 1),
        "decoder_start_token_id": start,
    }


def published(name: str) -> str:
    """Returns the published name of a tensor.

    An unknown name is returned unchanged; the load plan then reports it.
    """
    table = re.fullmatch(r"(encoder|decoder)\.positional_embedding", name)
    if table is not None:
        return f"model.{table[1]}.embed_positions.weight"
    module, _, leaf = name.rpartition(".")
    place = re.match(r"(encoder|decoder)\.blocks\.(\d+)\.", module)
    if place is None:
        known = NAMES.get(module)
        return name if known is None else f"{known}.{leaf}"
    known = NAMES.get(f"{{stack}}.blocks.{{i}}.{module[place.end() :]}")
    return name if known is None else f"{known.format(stack=place[1], i=place[2])}.{leaf}"


class OpenAIFile(SingleFile, PickleFile):
    """OpenAI's Whisper file: a dictionary of `dims` and `model_state_dict`."""

    def __init__(self, path: Path) -> None:
        state = unpickle(path)
        whole = state if isinstance(state, dict) else {}
        dims, tensors = whole.get("dims"), whole.get("model_state_dict")
        if not isinstance(dims, dict) or not _is_table(tensors):
            raise LoadError(
                f"{path} has no dims and model_state_dict, so it is not OpenAI's Whisper; other "
                ".pt files are not read, save the model as a folder."
            )
        self.config = config_of(dims)
        self.tensors = {published(name): t for name, t in tensors.items()}
        self.shapes = {name: tuple(t.shape) for name, t in self.tensors.items()}


def _is_table(state: Any) -> TypeGuard[dict[str, Tensor]]:
    return isinstance(state, dict) and all(isinstance(t, Tensor) for t in state.values())
