"""OpenAI's names of Whisper's tensors beside the reference's, without our code."""

from __future__ import annotations

import torch
import transformers

import glassformer as gf

WORDS = {  # OpenAI's words for the reference's; the longer ones come first
    "blocks": "layers", "mlp.0": "fc1", "mlp.2": "fc2", "mlp_ln": "final_layer_norm",
    "cross_attn_ln": "encoder_attn_layer_norm", "attn_ln": "self_attn_layer_norm",
    "cross_attn.": "encoder_attn.", ".attn.": ".self_attn.", ".query": ".q_proj", ".key": ".k_proj",
    ".value": ".v_proj", "attn.out": "attn.out_proj", "decoder.ln.": "decoder.layer_norm.",
    "encoder.ln_post": "encoder.layer_norm", "token_embedding": "embed_tokens",
    "positional_embedding": "embed_positions.weight",
}  # fmt: skip


def renamed(name: str) -> str:
    for theirs, ours in WORDS.items():
        if theirs == "attn_ln" and "encoder_attn_layer_norm" in name:
            continue
        name = name.replace(theirs, ours)
    return f"model.{name}"


def reference_of(model: gf.Model, state: dict[str, torch.Tensor]) -> torch.nn.Module:
    """The reference's class with the same tensors, named without our code."""
    config = transformers.WhisperConfig(**model.config)
    theirs = transformers.WhisperForConditionalGeneration(config).eval()
    result = theirs.load_state_dict(
        {renamed(name): tensor.float() for name, tensor in state.items()}, strict=False
    )
    assert result.missing_keys == ["proj_out.weight"] and not result.unexpected_keys
    theirs.tie_weights()
    return theirs
