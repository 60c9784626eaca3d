"""Weights under other file names, and a file of weights as the source."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import glassformer as gf

IDS = torch.arange(12)[None]
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 40,
    "max_position_embeddings": 64,
}
SPLIT = {"wq": 0, "wk": 0, "wv": 0, "w1": 0, "w3": 0, "wo": 1, "w2": 1, "output": 0}


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    made = tmp_path_factory.mktemp("llama")
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def expected(llama) -> torch.Tensor:
    return logits(transformers.LlamaForCausalLM.from_pretrained(llama).eval())


def original(folder: Path) -> dict[str, torch.Tensor]:
    """Tensors as Meta names them, with rotated pairs side by side."""
    names = {
        "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk",
        "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo",
        "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2",
        "mlp.up_proj": "feed_forward.w3", "input_layernorm": "attention_norm",
        "post_attention_layernorm": "ffn_norm", "model.embed_tokens": "tok_embeddings",
        "lm_head": "output", "model.": "",
    }  # fmt: skip
    made = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if "q_proj" in name or "k_proj" in name:
            heads = tensor.shape[0] // 8
            tensor = tensor.view(heads, 2, 4, 32).transpose(1, 2).reshape(tensor.shape)
        for theirs, new in names.items():
            name = name.replace(theirs, new)
        made[name] = tensor.contiguous().clone()
    return made


def params(**more: object) -> str:
    sizes = {"dim": 32, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "norm_eps": 1e-6}
    return json.dumps({**sizes, "vocab_size": -1, "multiple_of": 16, **more})


@pytest.mark.parametrize("words_axis", [0, 1])
@pytest.mark.parametrize("parts", [1, 2])
def test_metas_files(llama, expected, tmp_path, parts, words_axis):
    whole = original(llama)
    whole["rope.freqs"] = torch.ones(4)
    for part in range(parts):
        own = {}
        for name, tensor in whole.items():
            axis = words_axis if name.startswith("tok") else SPLIT.get(name.split(".")[-2])
            cut = tensor if axis is None else tensor.chunk(parts, axis)[part]
            own[name] = cut.clone()
        torch.save(own, tmp_path / f"consolidated.{part:02}.pth")
    (tmp_path / "params.json").write_text(params())
    model = gf.load(tmp_path)
    assert torch.allclose(logits(model), expected, atol=1e-5)
    assert model.architecture == "LlamaForCausalLM"
    model.save(tmp_path / "saved")
    assert torch.equal(logits(gf.load(tmp_path / "saved")), logits(model))


def test_mistrals_file_has_a_window(tmp_path):
    torch.manual_seed(0)
    config = transformers.MistralConfig(**SIZES, head_dim=8, sliding_window=5)
    reference = transformers.MistralForCausalLM(config).eval()
    reference.save_pretrained(tmp_path / "folder")
    save_file(original(tmp_path / "folder"), tmp_path / "consolidated.safetensors")
    (tmp_path / "params.json").write_text(params(head_dim=8, hidden_dim=48, sliding_window=5))
    model = gf.load(tmp_path)
    assert torch.allclose(logits(model), logits(reference), atol=1e-5)


@pytest.mark.parametrize("heads", [0, -4, True, "4", None, 4.0])
def test_params_of_other_numbers(llama, tmp_path, heads):
    save_file(original(llama), tmp_path / "consolidated.safetensors")
    for key in ("n_heads", "n_kv_heads"):
        (tmp_path / "params.json").write_text(params(**{key: heads}))
        if key == "n_kv_heads" and not heads:
            continue  # as many as heads
        with pytest.raises(gf.LoadError, match="gives no number of heads"):
            gf.load(tmp_path)


@pytest.mark.parametrize("name", ["tok_embeddings", "layers.0.feed_forward.w1", "norm"])
@pytest.mark.parametrize("shape", [(), (32,), (3, 3), (2, 2, 2)], ids=str)
def test_consolidated_tensors_of_other_shapes(llama, tmp_path, name, shape):
    whole = original(llama)
    (tmp_path / "params.json").write_text(params())
    for part in range(2):
        whole[f"{name}.weight"] = torch.zeros(shape) if part else whole[f"{name}.weight"]
        torch.save(whole, tmp_path / f"consolidated.{part:02}.pth")
    if name == "norm" and shape == (32,):
        return
    with pytest.raises(gf.GlassformerError, match=r"does not have the shape|By config\.json"):
        gf.load(tmp_path)


def test_a_config_beside_goes_before_params(llama, expected, tmp_path):
    torch.save(original(llama), tmp_path / "consolidated.00.pth")
    (tmp_path / "params.json").write_text(params(use_scaled_rope=True))
    with pytest.raises(gf.UnsupportedError, match=r"'use_scaled_rope', for which a config\.json"):
        gf.load(tmp_path)
    (tmp_path / "params.json").write_text(params(moe={"num_experts": 8}))
    with pytest.raises(gf.UnsupportedError, match="'moe'"):
        gf.load(tmp_path)
    shutil.copy(llama / "config.json", tmp_path)
    assert torch.allclose(logits(gf.load(tmp_path)), expected, atol=1e-5)
    (tmp_path / "params.json").unlink()
    assert torch.allclose(logits(gf.load(tmp_path)), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["model.fp16.safetensors", "gpt.safetensors", "model.bf16.bin"])
def test_a_single_file_of_another_name(llama, expected, tmp_path, name):
    shutil.copy(llama / "config.json", tmp_path)
    if name.endswith(".bin"):
        torch.save(load_file(llama / "model.safetensors"), tmp_path / f"pytorch_{name}")
    else:
        shutil.copy(llama / "model.safetensors", tmp_path / name)
    assert torch.allclose(logits(gf.load(tmp_path)), expected, atol=1e-5)
    if not name.endswith(".bin"):
        shutil.copy(llama / "model.safetensors", tmp_path / "other.safetensors")
        with pytest.raises(gf.LoadError, match=r"has several files of weights .* name the file"):
            gf.load(tmp_path)
        assert torch.allclose(logits(gf.load(tmp_path / name)), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("index", "shard"),
    [
        ("model.safetensors.index.fp16.json", "model.fp16-0000{}-of-00002.safetensors"),
        ("model.fp16.safetensors.index.json", "model-0000{}-of-00002.fp16.safetensors"),
    ],
)
def test_shards_of_another_name(llama, expected, tmp_path, index, shard):
    shutil.copy(llama / "config.json", tmp_path)
    tensors = load_file(llama / "model.safetensors")
    names = sorted(tensors)
    where = {name: shard.format(1 + number % 2) for number, name in enumerate(names)}
    for file in sorted({*where.values()}):
        save_file({name: tensors[name] for name in names if where[name] == file}, tmp_path / file)
    with pytest.raises(gf.LoadError, match=r"has shards of a model .* and not .*index\.json"):
        gf.load(tmp_path)
    (tmp_path / index).write_text(json.dumps({"metadata": {}, "weight_map": where}))
    assert torch.allclose(logits(gf.load(tmp_path)), expected, atol=1e-5)
    assert torch.allclose(logits(gf.load(tmp_path / where[names[0]])), expected, atol=1e-5)
    (tmp_path / "model.safetensors.index.bf16.json").write_text("{}")
    with pytest.raises(gf.LoadError, match="several indices of shards"):
        gf.load(tmp_path)


def test_numbers_of_several_types_become_one(llama, expected, tmp_path):
    tensors = load_file(llama / "model.safetensors")
    mixed = {n: t.bfloat16() if "norm" not in n else t for n, t in tensors.items()}
    save_file(mixed, tmp_path / "model.safetensors")
    config = json.loads((llama / "config.json").read_text())
    for named, dtype, atol in (
        (None, torch.float32, 1e-5),
        ("bfloat16", torch.bfloat16, 0.02),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**config, "dtype": named}))
        model = gf.load(tmp_path)
        assert model.dtype == dtype and {p.dtype for p in model.parameters()} == {dtype}
        assert "the files hold bfloat16, float32" in str(model.load_report)
        reference = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=dtype).eval()
        assert torch.allclose(logits(model), logits(reference), atol=atol)


def test_a_consolidated_file_as_the_source(llama, expected, tmp_path):
    save_file(original(llama), tmp_path / "consolidated.safetensors")
    torch.save(original(llama), tmp_path / "consolidated.00.pth")
    (tmp_path / "params.json").write_text(params())
    for name in ("consolidated.safetensors", "consolidated.00.pth"):
        assert torch.allclose(logits(gf.load(tmp_path / name)), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["consolidated.safetensors", "consolidated.00.pth"])
def test_a_consolidated_file_with_published_names_is_an_ordinary_one(
    llama, expected, tmp_path, name
):
    shutil.copy(llama / "config.json", tmp_path)
    if name.endswith("pth"):
        torch.save(load_file(llama / "model.safetensors"), tmp_path / name)
    else:
        shutil.copy(llama / "model.safetensors", tmp_path / name)
    assert torch.allclose(logits(gf.load(tmp_path)), expected, atol=1e-5)
    assert torch.allclose(logits(gf.load(tmp_path / name)), expected, atol=1e-5)


def test_the_only_table_of_tensors_in_a_training_checkpoint(llama, expected, tmp_path):
    tensors = load_file(llama / "model.safetensors")
    shutil.copy(llama / "config.json", tmp_path)
    optimizer = {"state": {0: {"exp_avg": torch.zeros(2)}}, "param_groups": [{"lr": 0.1}]}
    saved = {"epoch": 3, "net": tensors, "optimizer": optimizer}
    torch.save(saved, tmp_path / "pytorch_model.bin")
    assert torch.allclose(logits(gf.load(tmp_path)), expected, atol=1e-5)
    torch.save({"student": tensors, "teacher": tensors}, tmp_path / "pytorch_model.bin")
    with pytest.raises(gf.LoadError, match=r"several tables of tensors \(student, teacher\)"):
        gf.load(tmp_path)


def test_a_file_as_the_source(llama, expected, tmp_path, monkeypatch, glassformer):
    folder = tmp_path / "model"
    shutil.copytree(llama, folder)
    changed = {k: v * 2 for k, v in load_file(folder / "model.safetensors").items()}
    save_file(changed, folder / "model.ema.safetensors", metadata={"format": "pt"})
    file = gf.load(folder / "model.safetensors")
    assert torch.allclose(logits(file), expected, atol=1e-5)
    assert not torch.allclose(logits(gf.load(folder / "model.ema.safetensors")), expected)
    monkeypatch.chdir(folder)
    assert torch.equal(logits(gf.load("model.safetensors")), logits(file))
    code, shown, said = glassformer("inspect", "model.safetensors")
    assert code == 0, said
    assert "LlamaForCausalLM" in shown


def test_a_file_without_a_config(llama, tmp_path):
    shutil.copy(llama / "model.safetensors", tmp_path)
    with pytest.raises(gf.LoadError, match=r"has no config\.json"):
        gf.load(tmp_path / "model.safetensors")
    with pytest.raises(gf.LoadError, match=r"There is no file .*none\.safetensors"):
        gf.load(tmp_path / "none.safetensors")


def test_a_shard_and_an_adapters_file_stand_for_their_folder(llama, expected, tmp_path):
    reference = transformers.LlamaForCausalLM.from_pretrained(llama)
    reference.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    first = sorted((tmp_path / "shards").glob("*.safetensors"))[0]
    assert torch.allclose(logits(gf.load(first)), expected, atol=1e-5)
    model = gf.load(llama)
    model.adapters.add(gf.LoRA(rank=2))
    model.adapters.save(tmp_path / "adapter")
    found = gf.load(tmp_path / "adapter" / "adapter_model.safetensors")
    assert torch.equal(logits(found), logits(model))
