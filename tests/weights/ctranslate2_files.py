"""Files of CTranslate2 for the tensors of a published Whisper folder, without our code."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import torch

import glassformer as gf

KINDS = {torch.float32: 0, torch.int8: 1, torch.int16: 2, torch.float16: 4}
PARTS = {
    "self_attention": ("self_attn", [["q_proj", "k_proj", "v_proj"], ["out_proj"]]),
    "attention": ("encoder_attn", [["q_proj"], ["k_proj", "v_proj"], ["out_proj"]]),
}


SIZES = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
    "num_mel_bins": 6, "max_source_positions": 11, "max_target_positions": 20,
    "vocab_size": 51864, "eos_token_id": 50256, "decoder_start_token_id": 50257,
}  # fmt: skip


def model() -> gf.Model:
    return gf.create("whisper-tiny.en", seed=1, **SIZES)


def variables(saved: dict[str, torch.Tensor], quantize: bool) -> dict[str, torch.Tensor]:
    """The tensors of a published folder under CTranslate2's names."""
    found = {"decoder/embeddings/weight": saved["model.decoder.embed_tokens.weight"]}
    for name in ("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"):
        found[f"encoder/{name.replace('.', '/')}"] = saved[f"model.encoder.{name}"]
    for side, layers in (("encoder", 1), ("decoder", 2)):
        base = f"model.{side}"
        found[f"{side}/num_heads"] = torch.tensor(2, dtype=torch.int16)
        found[f"{side}/position_encodings/encodings"] = saved[f"{base}.embed_positions.weight"]
        for norm, ours in (("gamma", "weight"), ("beta", "bias")):
            found[f"{side}/layer_norm/{norm}"] = saved[f"{base}.layer_norm.{ours}"]
            for i in range(layers):
                layer = f"{base}.layers.{i}"
                ours_of = {"self_attention": "self_attn_layer_norm", "ffn": "final_layer_norm"}
                if side == "decoder":
                    ours_of["attention"] = "encoder_attn_layer_norm"
                for part, module in ours_of.items():
                    name = f"{side}/layer_{i}/{part}/layer_norm/{norm}"
                    found[name] = saved[f"{layer}.{module}.{ours}"]
        for i in range(layers):
            layer, before = f"{base}.layers.{i}", f"{side}/layer_{i}"
            for leaf in ("weight", "bias"):
                for place, name in enumerate(("fc1", "fc2")):
                    found[f"{before}/ffn/linear_{place}/{leaf}"] = saved[f"{layer}.{name}.{leaf}"]
                for part, (module, joined) in PARTS.items():
                    if part == "attention" and side == "encoder":
                        continue
                    for place, names in enumerate(joined):
                        rows = [
                            saved.get(f"{layer}.{module}.{n}.{leaf}", torch.zeros(16))
                            for n in names
                        ]
                        found[f"{before}/{part}/linear_{place}/{leaf}"] = torch.cat(rows)
    for name in [n for n in found if quantize and "linear" in n and n.endswith("weight")]:
        scale = 127 / found[name].abs().amax(1)
        found[f"{name}_scale"] = scale
        found[name] = (found[name] * scale[:, None]).round().to(torch.int8)
    return found


def packed(found: dict[str, torch.Tensor], spec: str = "WhisperSpec") -> bytes:
    def name(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    parts = [struct.pack("<I", 6), name(spec), struct.pack("<II", 3, len(found))]
    for key, tensor in found.items():
        data = tensor.contiguous().numpy().tobytes()
        parts += [name(key), struct.pack(f"<B{tensor.ndim}I", tensor.ndim, *tensor.shape)]
        parts += [struct.pack("<BI", KINDS[tensor.dtype], len(data)), data]
    parts += [struct.pack("<I", 1), name("decoder/projection/weight")]
    parts += [name("decoder/embeddings/weight")]
    return b"".join(parts)


def write(folder: Path, found: dict[str, torch.Tensor], spec: str = "WhisperSpec") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "model.bin").write_bytes(packed(found, spec))
    config = {"suppress_ids": [1, 2], "suppress_ids_begin": [220, 50256],
              "lang_ids": [50259], "alignment_heads": [[1, 0]]}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder
