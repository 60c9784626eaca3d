"""CTranslate2's folder of a Whisper model is read as the folder that it was converted from."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
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


def write(folder: Path, found: dict[str, torch.Tensor], spec: str = "WhisperSpec") -> Path:
    def name(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    parts = [struct.pack("<I", 6), name(spec), struct.pack("<II", 3, len(found))]
    for key, tensor in found.items():
        data = tensor.contiguous().numpy().tobytes()
        parts += [name(key), struct.pack(f"<B{tensor.ndim}I", tensor.ndim, *tensor.shape)]
        parts += [struct.pack("<BI", KINDS[tensor.dtype], len(data)), data]
    parts += [struct.pack("<I", 1), name("decoder/projection/weight")]
    parts += [name("decoder/embeddings/weight")]
    folder.mkdir(exist_ok=True)
    (folder / "model.bin").write_bytes(b"".join(parts))
    config = {"suppress_ids": [1, 2], "suppress_ids_begin": [220, 50256],
              "lang_ids": [50259], "alignment_heads": [[1, 0]]}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    from safetensors.torch import load_file

    folder = tmp_path_factory.mktemp("saved")
    model().save(folder)
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("quantize", [False, True])
@torch.no_grad()
def test_equals_the_folder_it_was_made_from(saved, tmp_path, quantize):
    wanted = model()
    found = gf.load(write(tmp_path / "ct2", variables(saved, quantize)))
    assert not found.load_report.made and found.architecture == wanted.architecture
    sound = torch.randn(1, 6, 22, generator=torch.Generator().manual_seed(1))
    inputs = {"input_features": sound, "decoder_input_ids": torch.arange(7)[None]}
    difference = (found(**inputs).logits - wanted(**inputs).logits).abs().max()
    assert float(difference) <= (0.02 if quantize else 1e-6)
    generation = found.generation_config
    assert generation["no_timestamps_token_id"] == 50362
    assert generation["alignment_heads"] == [[1, 0]] and "lang_to_id" not in generation


def test_half_precision_is_float32_on_a_cpu(saved, tmp_path):
    half = {n: t.half() if t.is_floating_point() else t for n, t in variables(saved, False).items()}
    found = gf.load(write(tmp_path / "ct2", half))
    assert found.load_report.dtypes == ("float32",)


def test_other_and_damaged_files_are_named(saved, tmp_path):
    folder = write(tmp_path / "ct2", variables(saved, False), "TransformerSpec")
    with pytest.raises(gf.GlassformerError, match="CTranslate2 model of TransformerSpec"):
        gf.load(folder)
    folder = write(tmp_path / "ct2", variables(saved, False))
    content = (folder / "model.bin").read_bytes()
    for size in (20, 200, len(content) - 8):
        (folder / "model.bin").write_bytes(content[:size])
        with pytest.raises(gf.GlassformerError, match="damaged CTranslate2 file"):
            gf.load(folder)
    lacking = {n: t for n, t in variables(saved, False).items() if "conv2" not in n}
    with pytest.raises(gf.GlassformerError, match=r"damaged CTranslate2 file \('encoder/conv2"):
        gf.load(write(folder, lacking))
