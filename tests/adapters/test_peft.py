"""Adapter folders are exchanged with peft in both directions, with equal results."""

from __future__ import annotations

import json

import peft
import pytest
import torch
from beside_peft import CONFIGS, TARGETS, TASKS, TOLERANCE, Pair, adapted, far
from safetensors.torch import load_file, save_file

import glassformer as gf
from glassformer.adapters import AdaLoRA, BitFit, Bottleneck, LoRA, Prefix, Prompt, active


@pytest.fixture(scope="module", params=CONFIGS)
def pair(request, tmp_path_factory):
    return Pair(request.param, tmp_path_factory.mktemp("reference"))


def settings_for(architecture):
    targets, kind = tuple(TARGETS[architecture]), CONFIGS[architecture]["model_type"]
    yield LoRA(rank=3, alpha=5, target_modules=targets)
    if kind in ("gpt2", "bert"):
        yield LoRA(rank=4, use_rslora=True, bias="lora_only")
        yield BitFit()
    if kind in ("gpt2", "bert", "t5", "gpt_neox"):
        yield AdaLoRA(rank=4, target_rank=2, max_steps=10, target_modules=targets)
        yield Prompt(num_virtual_tokens=4)
    if kind in ("gpt2", "llama", "bert", "t5"):
        yield Prefix(num_virtual_tokens=4)
    if kind == "bart":
        yield Prefix(num_virtual_tokens=4, encoder_hidden_size=6)


def configs_for(architecture):
    targets, kind = TARGETS[architecture], CONFIGS[architecture]["model_type"]
    task = TASKS[architecture]
    yield peft.LoraConfig(r=3, lora_alpha=5, target_modules=targets, task_type=task)
    if kind in ("gpt2", "bert"):
        yield peft.LoraConfig(
            r=4,
            target_modules=targets,
            use_rslora=True,
            bias="all",
            rank_pattern={targets[0]: 2},
            alpha_pattern={targets[0]: 7},
        )
    if kind in ("gpt2", "bert", "t5", "gpt_neox"):
        yield peft.AdaLoraConfig(
            init_r=4, target_r=2, total_step=10, target_modules=targets, lora_alpha=64
        )
        yield peft.PromptTuningConfig(num_virtual_tokens=4, task_type=task)
    if kind in ("gpt2", "llama", "bert", "t5"):
        yield peft.PrefixTuningConfig(num_virtual_tokens=4, task_type=task)


def test_what_we_save_peft_reads(pair, tmp_path):
    plain = pair.ours(pair.model())
    for number, settings in enumerate(settings_for(pair.architecture)):
        model = adapted(pair.model(), settings)
        ours, folder = pair.ours(model), tmp_path / str(number)
        model.adapters.save(folder)
        assert far(pair.theirs(pair.read_by_peft(folder)), ours) < TOLERANCE, settings
        assert far(pair.ours(pair.model(adapter=folder)), ours) == 0, settings
        assert far(ours, plain) > 1e-3, settings


def test_what_peft_saves_we_read(pair, tmp_path):
    plain = pair.ours(pair.model())
    for number, config in enumerate(configs_for(pair.architecture)):
        theirs, folder = pair.with_peft(config), tmp_path / str(number)
        theirs.save_pretrained(folder)
        ours = pair.ours(pair.model(adapter=folder))
        assert far(pair.theirs(theirs), ours) < TOLERANCE, config
        assert far(ours, plain) > 1e-3, config


def test_a_folder_names_published_modules_and_its_base(tmp_path):
    pair = Pair("GPT2LMHeadModel", tmp_path / "model")
    model = adapted(pair.model(), LoRA(rank=2, target_modules=("c_attn",)))
    model.adapters.save(tmp_path / "adapter")
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(tmp_path / "model")
    assert (config["peft_type"], config["target_modules"]) == ("LORA", ["c_attn"])
    assert config["fan_in_fan_out"] is True
    tensors = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    front = "base_model.model.transformer.h.0.attn.c_attn"
    assert tensors[f"{front}.lora_B.weight"].shape == (48, 2)


def test_a_new_head_is_saved_with_the_adapter(tmp_path):
    """As peft does it for classification; the model's own head stays as it was."""
    pair = Pair("BertForSequenceClassification", tmp_path / "model")
    model = adapted(pair.model(), LoRA(rank=2))
    before = pair.model().heads["classify"].out.weight
    model.adapters.save(tmp_path / "adapter")
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config["modules_to_save"] == ["classifier"]
    again = pair.model(adapter=tmp_path / "adapter")
    adapter = active(again)
    assert adapter is not None and set(adapter.own) == {
        "heads.classify.out.weight",
        "heads.classify.out.bias",
    }
    again.adapters.set_active(None)
    assert torch.equal(again.heads["classify"].out.weight, before)


def test_a_bottleneck_is_saved_in_a_layout_of_our_own(tmp_path):
    """peft has none."""
    pair = Pair("BertForSequenceClassification", tmp_path / "model")
    for places in ("both", "ffn"):
        model = adapted(
            pair.model(), Bottleneck(bottleneck_size=5, places=places, activation="gelu")
        )
        model.adapters.save(tmp_path / places)
        assert far(pair.ours(pair.model(adapter=tmp_path / places)), pair.ours(model)) == 0
        assert far(pair.ours(model), pair.ours(pair.model())) > 1e-3


def test_a_pickle_of_an_older_peft(tmp_path):
    pair = Pair("LlamaForCausalLM", tmp_path / "model")
    theirs = pair.with_peft(peft.LoraConfig(r=3, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    theirs.save_pretrained(tmp_path / "adapter", safe_serialization=False)
    assert not (tmp_path / "adapter" / "adapter_model.safetensors").exists()
    ours = pair.ours(pair.model(adapter=tmp_path / "adapter"))
    assert far(pair.theirs(theirs), ours) < TOLERANCE


def test_low_ranks_of_the_output_layer(tmp_path):
    pair = Pair("LlamaForCausalLM", tmp_path / "model")
    theirs = pair.with_peft(
        peft.LoraConfig(r=3, target_modules=["q_proj", "lm_head"], task_type="CAUSAL_LM")
    )
    folder = tmp_path / "adapter"
    theirs.save_pretrained(folder)
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    whole = [name for name in tensors if name.endswith("lm_head.base_layer.weight")]
    assert whole  # peft saves the layer, too
    assert far(pair.theirs(theirs), pair.ours(pair.model(adapter=folder))) < TOLERANCE
    save_file({**tensors, whole[0]: tensors[whole[0]] + 1}, path)
    with pytest.raises(gf.LoadError, match=r"has lm_head\.weight, which this model"):
        pair.model(adapter=folder)
    theirs = pair.with_peft(peft.LoraConfig(r=3, target_modules=["embed_tokens"]))
    theirs.save_pretrained(tmp_path / "embedding")
    with pytest.raises(gf.UnsupportedError, match=r"low ranks of an embedding .* merge it"):
        pair.model(adapter=tmp_path / "embedding")
