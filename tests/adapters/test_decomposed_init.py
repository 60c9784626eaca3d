"""Adapters for which peft takes factors of the weights out of the model: what was trained is what
is loaded, or it is refused."""

from __future__ import annotations

import copy
import json
from dataclasses import fields

import peft
import pytest
import torch
from beside_peft import TARGETS, TOLERANCE, Pair, far

from glassformer import GlassformerError
from glassformer.adapters import decomposed_init as start
from glassformer.adapters import load

PATTERNS = {
    "GPT2LMHeadModel": {"c_attn": 3},
    "LlamaForCausalLM": {"layers.1.self_attn.q_proj": 3},
    "GPTNeoXForCausalLM": {},
}


@pytest.fixture(scope="module", params=PATTERNS)
def pair(request, tmp_path_factory):
    return Pair(request.param, tmp_path_factory.mktemp("reference"))


def trained(pair, **options):
    """As peft makes it, a few steps later."""
    config = peft.LoraConfig(
        target_modules=TARGETS[pair.architecture], task_type="CAUSAL_LM", **options
    )
    torch.manual_seed(0)
    model = peft.get_peft_model(copy.deepcopy(pair.reference), config)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(learning, lr=0.5)
    for _ in range(5):
        optimizer.zero_grad()
        model(input_ids=pair.tokens, labels=pair.tokens).loss.backward()
        optimizer.step()
    return model.eval()


def starts(pair):
    patterns = PATTERNS[pair.architecture]
    yield {"init_lora_weights": "pissa", "r": 4, "lora_alpha": 7}
    yield {"init_lora_weights": "pissa", "r": 12, "lora_alpha": 5}  # twice that is more than all
    yield {
        "init_lora_weights": "pissa", "r": 4, "lora_alpha": 6, "use_rslora": True,
        "rank_pattern": patterns, "alpha_pattern": dict.fromkeys(patterns, 9),
    }  # fmt: skip
    if pair.architecture != "GPT2LMHeadModel":
        yield {"init_lora_weights": "olora", "r": 4, "lora_alpha": 6}
        yield {"init_lora_weights": "OLoRA", "r": 4, "lora_alpha": 3, "rank_pattern": patterns}
    for plain in (True, False, "gaussian", "orthogonal", "mica"):
        yield {"init_lora_weights": plain, "r": 4, "lora_alpha": 6}


def test_what_peft_trained_is_what_is_loaded(pair, tmp_path):
    plain = pair.ours(pair.model())
    for number, options in enumerate(starts(pair)):
        theirs, folder = trained(pair, **options), tmp_path / str(number)
        theirs.save_pretrained(folder)
        expected = pair.theirs(theirs)
        model = pair.model(adapter=folder)
        assert far(pair.ours(model), expected) < TOLERANCE, options
        assert far(plain, expected) > 1e-3, options
        assert far(pair.ours(model.adapters.set_active(None)), plain) == 0, options

        model.adapters.set_active("default").adapters.save(folder / "ours")
        assert far(pair.theirs(pair.read_by_peft(folder / "ours")), expected) < TOLERANCE, options
        assert far(pair.ours(pair.model(adapter=folder / "ours")), expected) < TOLERANCE, options
        merged = model.adapters.merge()
        assert far(pair.ours(merged), expected) < TOLERANCE, options


@pytest.mark.parametrize("said", ["pissa_niter_4", "corda", "loftq", "lora_ga", "something new"])
def test_what_cannot_be_repeated_is_refused(said, tmp_path):
    pair = Pair("LlamaForCausalLM", tmp_path / "model")
    trained(pair, r=4).save_pretrained(tmp_path / "adapter")
    path = tmp_path / "adapter" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "init_lora_weights": said}))
    with pytest.raises(GlassformerError, match=f"init_lora_weights = '{said}'.*conversion"):
        pair.model(adapter=tmp_path / "adapter")


def test_the_remedy_that_is_named_helps(tmp_path):
    pair = Pair("LlamaForCausalLM", tmp_path / "model")
    options = {"init_lora_weights": "pissa_niter_8", "r": 4}
    config = peft.LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM", **options)
    theirs = peft.get_peft_model(copy.deepcopy(pair.reference), config).eval()
    theirs.peft_config["default"].init_lora_weights = True  # as peft's guide has it
    theirs.save_pretrained(tmp_path / "start")
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "lora_" in name:
                parameter += 0.1 * torch.randn(parameter.shape)
    theirs.peft_config["default"].init_lora_weights = "pissa_niter_8"
    theirs.save_pretrained(
        tmp_path / "plain", path_initial_model_for_weight_conversion=tmp_path / "start"
    )
    ours = pair.ours(pair.model(adapter=tmp_path / "plain"))
    assert far(ours, pair.theirs(theirs)) < TOLERANCE


def test_codes_and_transposed_weights_are_named(tmp_path):
    pair = Pair("LlamaForCausalLM", tmp_path / "llama")
    trained(pair, r=4, init_lora_weights="pissa").save_pretrained(tmp_path / "adapter")
    with pytest.raises(GlassformerError, match="load the model without quantize"):
        pair.model(adapter=tmp_path / "adapter", quantize="int8")

    pair = Pair("GPT2LMHeadModel", tmp_path / "gpt2")
    trained(pair, r=4, init_lora_weights="pissa").save_pretrained(tmp_path / "adapter")
    path = tmp_path / "adapter" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "init_lora_weights": "olora"}))
    with pytest.raises(GlassformerError, match="stored transposed"):
        pair.model(adapter=tmp_path / "adapter")


def test_every_setting_of_peft_is_accounted_for():
    """A field that a new peft has is put into one of these, or into `load.UNKNOWN`."""
    read = """peft_type r lora_alpha lora_dropout bias use_rslora modules_to_save init_lora_weights
        rank_pattern alpha_pattern"""
    seen_in_the_tensors = """target_modules exclude_modules layers_to_transform layers_pattern
        fan_in_fan_out ensure_weight_tying"""
    bookkeeping = """task_type auto_mapping peft_version base_model_name_or_path revision
        inference_mode runtime_config megatron_config megatron_core"""
    only_with_another = """loftq_config eva_config corda_config lora_ga_config qalora_group_size"""
    only_in_training = "velora_config"
    known = {*load.UNKNOWN}
    for names in (read, seen_in_the_tensors, bookkeeping, only_with_another, only_in_training):
        known |= set(names.split())
    assert {field.name for field in fields(peft.LoraConfig)} <= known
    assert set(start.STARTS).isdisjoint(start.WEIGHTS_STAY)
