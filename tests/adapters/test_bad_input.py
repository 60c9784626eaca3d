"""Invalid input raises an error of one sentence and leaves the model unchanged."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from beside_peft import Pair, adapted, far
from safetensors.torch import load_file, save_file

import glassformer as gf
from glassformer.adapters import AdaLoRA, BitFit, Bottleneck, LoRA, Prefix, Prompt, make
from glassformer.errors import GlassformerError


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return Pair("GPT2LMHeadModel", tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return Pair("LlamaForCausalLM", tmp_path_factory.mktemp("reference"))


@pytest.fixture
def folder(gpt2, tmp_path):
    adapted(gpt2.model(), LoRA(rank=2, target_modules=("c_attn",))).adapters.save(
        tmp_path / "adapter"
    )
    return tmp_path / "adapter"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            LoRA(target_modules=("c_atn",)),
            "no linear layer 'c_atn' to adapt; did you mean 'c_attn'",
        ),
        (LoRA(target_modules=("xyz",)), "there are c_attn, c_fc, c_proj, lm_head"),
        (
            LoRA(rank=17),
            "a matrix of 48 by 16, which is too small for rank 17; choose a rank of at most 16",
        ),
        (LoRA(modules_to_save=("lm_haed",)), "no module 'lm_haed'; did you mean 'lm_head'"),
    ],
)
def test_settings_that_do_not_fit_the_model(gpt2, settings, said):
    model = gpt2.model()
    with pytest.raises(GlassformerError, match=said):
        model.adapters.add(settings)
    assert far(gpt2.ours(model), gpt2.ours(gpt2.model())) == 0
    assert set(model.state_dict()) == set(gpt2.model().state_dict())
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("lorra", {}, "no adapter 'lorra'; did you mean 'lora'"),
        ("lora", {"ranks": 4}, "has no option 'ranks'; did you mean 'rank'"),
        ("lora", {"rank": "four"}, "rank is 'four'; it must be like 8"),
        ("lora", {"rank": [[]]}, "it must be like 8"),
        ("lora", {"target_modules": [1]}, "target_modules is .*; it must be a list of names"),
        ("lora", {"target_modules": 3}, "target_modules is 3; it must be a list of names"),
        ("adalora", {"betas": [0.9], "max_steps": 9}, "betas is .*; it must be like"),
        ("adalora", {"betas": ["a", 0.9], "max_steps": 9}, "betas is 'a'; it must be like"),
        ("adalora", {"max_steps": "many"}, "max_steps is 'many'; it must be like 100"),
        ("lora", {"rank": 0}, "rank is 0; it must be at least 1"),
        ("lora", {"dropout": 1.0}, "dropout is 1.0"),
        ("lora", {"bias": "some"}, "bias is 'some'"),
        ("lora", {"target_modules": []}, "target_modules names no linear layer"),
        ("adalora", {"rank": 4}, "target_rank is 8, which is above the initial rank 4"),
        (
            "adalora",
            {"warmup_steps": 5, "final_steps": 5, "max_steps": 10},
            "leave none of the",
        ),
        ("bottleneck", {"activation": "rellu"}, "did you mean 'relu'"),
        ("bottleneck", {"places": "attention"}, "places is 'attention'"),
        ("prefix", {"num_virtual_tokens": 0}, "num_virtual_tokens is 0"),
    ],
)
def test_settings_of_a_recipe(kind, options, said):
    with pytest.raises(GlassformerError, match=said):
        make(kind, options)


def test_a_recipe_makes_settings():
    assert make("lora", {"target_modules": ["q"], "alpha": 8}) == LoRA(
        target_modules=("q",), alpha=8
    )
    assert make("adalora", {}, max_steps=100) == AdaLoRA(max_steps=100)
    assert make("bitfit", {}) == BitFit()


def test_another_models_folder(gpt2, llama, folder, tmp_path):
    with pytest.raises(GlassformerError, match="is for GPT2LMHeadModel, and this model is Llama"):
        llama.model(adapter=folder)
    (folder / "glassformer.json").unlink()  # as peft writes it
    with pytest.raises(GlassformerError, match=r"for a layer 'transformer.h.0.attn.c_attn', which"):
        llama.model(adapter=folder)
    tensors = load_file(folder / "adapter_model.safetensors")
    first = next(name for name in tensors if "lora_A" in name)
    tensors[first] = torch.zeros(2, 24)
    save_file(tensors, folder / "adapter_model.safetensors")
    model = gpt2.model()
    with pytest.raises(
        GlassformerError, match="a matrix of 48 by 24, and this model's has 48 by 16"
    ):
        model.adapters.load(folder)
    assert far(gpt2.ours(model), gpt2.ours(gpt2.model())) == 0
    adapted(gpt2.model(), Prefix(num_virtual_tokens=3)).adapters.save(tmp_path / "prefix")
    (tmp_path / "prefix/glassformer.json").unlink()
    with pytest.raises(GlassformerError, match="prompt_embeddings"):
        llama.model(adapter=tmp_path / "prefix")


def test_what_is_no_adapters_folder(gpt2, folder, tmp_path):
    with pytest.raises(GlassformerError, match=r"has no adapter_config\.json"):
        gpt2.model(adapter=tmp_path)
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"use_dora": True}))
    with pytest.raises(GlassformerError, match="uses use_dora, which is not supported"):
        gpt2.model(adapter=folder)
    path.write_text(json.dumps(config | {"peft_type": "IA3"}))
    with pytest.raises(GlassformerError, match="of the type 'IA3'; those that can be read"):
        gpt2.model(adapter=folder)
    path.write_text("{")
    with pytest.raises(GlassformerError, match=r"(cannot be read|is not)"):
        gpt2.model(adapter=folder)


def test_a_base_that_is_no_text_or_the_adapter_itself(folder, tmp_path):
    path = folder / "adapter_config.json"
    (folder / "glassformer.json").unlink(missing_ok=True)
    config = json.loads(path.read_text())
    for source in (5, ["a"]):
        path.write_text(json.dumps(config | {"base_model_name_or_path": source}))
        with pytest.raises(GlassformerError, match=r"base_model_name_or_path = .*; it is"):
            gf.load(folder)
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    for mine, its in ((other, folder), (folder, other), (folder, folder)):
        described = json.dumps(config | {"base_model_name_or_path": str(its)})
        (mine / "adapter_config.json").write_text(described)
        if mine == folder:
            with pytest.raises(GlassformerError, match="names itself as its base model"):
                gf.load(folder)


def test_what_cannot_be_merged(gpt2, llama):
    for settings in (Bottleneck(), Prefix(), Prompt()):
        model = gpt2.model().adapters.add(settings)
        with pytest.raises(GlassformerError, match="cannot be merged"):
            model.adapters.merge()
    model = gpt2.model().adapters.add(LoRA(target_modules=("lm_head",)))
    with pytest.raises(GlassformerError, match="lm_head shares its weight with another layer"):
        model.adapters.merge()
    model = llama.model(quantize="int8").adapters.add(LoRA())
    with pytest.raises(GlassformerError, match="into quantized weights"):
        model.adapters.merge()


def test_orders_of_things(gpt2):
    model = gpt2.model()
    with pytest.raises(GlassformerError, match="no active adapter"):
        model.adapters.save("nowhere")
    model.adapters.add(LoRA())
    with pytest.raises(GlassformerError, match="has an adapter 'default' already"):
        model.adapters.add(LoRA())
    with pytest.raises(GlassformerError, match=r"'a.b' cannot be an adapter's name"):
        model.adapters.add(LoRA(), "a.b")
    with pytest.raises(GlassformerError, match="no adapter 'defualt'; did you mean 'default'"):
        model.adapters.set_active("defualt")
    with pytest.raises(GlassformerError, match="has an adapter; merge or remove it"):
        model.quantize("int8")
    with pytest.raises(GlassformerError, match="not merged"):
        model.adapters.unmerge()
    model.adapters.merge()
    with pytest.raises(GlassformerError, match="is merged; unmerge it first"):
        model.adapters.set_active(None)


def test_the_active_adapter_is_merged_whatever_its_name(gpt2):
    model = gpt2.model().adapters.add(LoRA(), "mine")
    with torch.no_grad():  # LoRA starts without an effect
        for weight in model.parameters():
            if weight.requires_grad:
                weight.fill_(0.01)
    weights = {k: v.clone() for k, v in model.state_dict().items() if "adapters" not in k}
    model.adapters.merge()
    assert any(not torch.equal(model.state_dict()[k], v) for k, v in weights.items())
    model.adapters.unmerge()
    assert all(torch.equal(model.state_dict()[k], v) for k, v in weights.items())


def test_texts_that_share_a_row(gpt2):
    for settings in (Prefix(num_virtual_tokens=3), Prompt(num_virtual_tokens=3)):
        model = gpt2.model().adapters.add(settings)
        with pytest.raises(GlassformerError, match="needs one text per row"):
            model(gpt2.tokens, document_ids=torch.zeros_like(gpt2.tokens))


def test_no_biases(tmp_path):
    model = Pair("T5ForConditionalGeneration", tmp_path).model()
    with pytest.raises(GlassformerError, match="no biases to train"):
        model.adapters.add(BitFit())


@pytest.mark.parametrize("settings", [LoRA(rank=2), AdaLoRA(rank=4, target_rank=2)])
@pytest.mark.parametrize("part", "ABE")
def test_a_factor_of_another_shape(gpt2, tmp_path, settings, part):
    """Copying it would repeat its values."""
    adapted(gpt2.model(), settings).adapters.save(tmp_path)
    path = tmp_path / "adapter_model.safetensors"
    tensors = load_file(path)
    for key in [key for key in tensors if f".lora_{part}" in key][:1]:
        one_rank = tensors[key][:, :1] if part == "B" else tensors[key][:1]
        save_file(tensors | {key: one_rank.contiguous()}, path)
        model = gpt2.model()
        with pytest.raises(GlassformerError, match=r"has the shape \[.*get the adapter again"):
            model.adapters.load(tmp_path)
        assert far(gpt2.ours(model), gpt2.ours(gpt2.model())) == 0


def test_a_rank_that_the_config_does_not_give(gpt2, folder):
    """peft refuses it, too: the scale would be another."""
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"r": 4}))
    with pytest.raises(GlassformerError, match=r"lora_A of .* for rank 4"):
        gpt2.model().adapters.load(folder)
    with pytest.raises(RuntimeError, match="size mismatch"):
        gpt2.read_by_peft(folder)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (Bottleneck(bottleneck_size=4), "width"),
        (Prefix(num_virtual_tokens=2), "num_virtual_tokens"),
        (Prompt(num_virtual_tokens=2), "num_virtual_tokens"),
    ],
)
def test_a_size_that_no_tensor_has(gpt2, tmp_path, settings, key):
    adapted(gpt2.model(), settings).adapters.save(tmp_path)
    path = tmp_path / "adapter_config.json"
    config = json.loads(path.read_text())
    assert key in config
    path.write_text(json.dumps(config | {key: 10**13}))
    with pytest.raises(gf.LoadError, match=r"names the size 10000000000000, and the largest axis"):
        gpt2.model().adapters.load(tmp_path)
