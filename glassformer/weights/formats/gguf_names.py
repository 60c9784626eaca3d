"""Translation of GGUF tensor names to published names.

Each name comes with a function that undoes what the conversion to GGUF did to the tensor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

Undo = Callable[[Tensor], Tensor]

LLAMA = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.{i}.attn_norm": "model.layers.{i}.input_layernorm",
    "blk.{i}.attn_q": "model.layers.{i}.self_attn.q_proj",
    "blk.{i}.attn_k": "model.layers.{i}.self_attn.k_proj",
    "blk.{i}.attn_v": "model.layers.{i}.self_attn.v_proj",
    "blk.{i}.attn_output": "model.layers.{i}.self_attn.o_proj",
    "blk.{i}.ffn_norm": "model.layers.{i}.post_attention_layernorm",
    "blk.{i}.ffn_gate": "model.layers.{i}.mlp.gate_proj",
    "blk.{i}.ffn_up": "model.layers.{i}.mlp.up_proj",
    "blk.{i}.ffn_down": "model.layers.{i}.mlp.down_proj",
}
GPT2 = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
    "blk.{i}.attn_norm": "transformer.h.{i}.ln_1",
    "blk.{i}.attn_qkv": "transformer.h.{i}.attn.c_attn",
    "blk.{i}.attn_output": "transformer.h.{i}.attn.c_proj",
    "blk.{i}.ffn_norm": "transformer.h.{i}.ln_2",
    "blk.{i}.ffn_up": "transformer.h.{i}.mlp.c_fc",
    "blk.{i}.ffn_down": "transformer.h.{i}.mlp.c_proj",
}
NAMES = {"llama": LLAMA, "gpt2": GPT2}
SCALED_FREQUENCIES = "rope_freqs.weight"
TRANSPOSED = re.compile(r".*\.(c_attn|c_proj|c_fc)\.weight")  # published as [in, out]
TURNED = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}


def published(name: str, config: Mapping[str, Any]) -> tuple[str, Undo]:
    """Returns the published name of a tensor and the function that restores its published layout.

    An unknown name is returned unchanged; the load plan then reports it.
    """
    if name == SCALED_FREQUENCIES:  # its contents are already in the config
        return "model.layers.0.self_attn.rotary_emb.inv_freq", same
    module, _, leaf = name.rpartition(".")
    layer = re.match(r"blk\.(\d+)\.", module)
    number = layer[1] if layer else ""
    known = NAMES[config["model_type"]].get(re.sub(r"^blk\.\d+\.", "blk.{i}.", module))
    if known is None:
        return name, same
    hf = f"{known.format(i=number)}.{leaf}"
    if TRANSPOSED.fullmatch(hf):
        return hf, Tensor.t
    heads = TURNED.get(module.rpartition(".")[2])
    return hf, same if heads is None else partial(halves, heads=config[heads])


def same(tensor: Tensor) -> Tensor:
    return tensor


def halves(tensor: Tensor, heads: int) -> Tensor:
    """Restores the row order of a query or key projection with rotary positions.

    The file stores the two rows that are rotated together next to each other; the published layout
    has all first rows of a head, then all second rows.
    """
    if tensor.shape[0] % (2 * heads):  # the load plan reports a wrong shape
        return tensor
    pairs = tensor.reshape(heads, -1, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape)
