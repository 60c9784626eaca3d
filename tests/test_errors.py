"""Each error can be caught as its standard Python class, and its attributes are filled."""

from __future__ import annotations

import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer as gf
from glassformer.adapters import LoRA, Prompt
from glassformer.storage.files import atomic_file
from glassformer.storage.folders import atomic_folder
from glassformer.text.training.train import train as train_tokenizer

SIZES = {"n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 64, "n_positions": 16}
WEIGHTS = "model.safetensors"
LAYER = "transformer.h.0.mlp.c_fc"


@pytest.fixture(scope="module")
def model():
    return gf.create("gpt2", seed=1, **SIZES)


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


def edit_tensors(path, edit):
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def edit_json(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def lists(error):
    return error.missing, error.unexpected, error.mismatched


@pytest.mark.parametrize(
    ("kind", "standard"),
    [
        (gf.ConfigError, ValueError),
        (gf.LoadError, OSError),
        (gf.InputError, ValueError),
        (gf.DataError, ValueError),
        (gf.UnsupportedError, NotImplementedError),
        (gf.DeviceError, RuntimeError),
    ],
)
def test_each_class_has_a_standard_base(kind, standard):
    with pytest.raises(standard) as caught:
        raise kind("One sentence.")
    assert isinstance(caught.value, gf.GlassformerError)
    assert str(caught.value) == "One sentence."


def test_errors_keep_their_attributes_between_processes():
    first = gf.LoadError("a", missing=["b"], unexpected=["c"], mismatched=["d"])
    again = pickle.loads(pickle.dumps(first))
    assert (str(again), *lists(again)) == ("a", ("b",), ("c",), ("d",))
    field = pickle.loads(pickle.dumps(gf.UnsupportedError("a", field="b"))).field
    line = pickle.loads(pickle.dumps(gf.DataError("a", path="b", line=3))).line
    assert (field, line) == ("b", 3)


def test_missing_tensors(folder):
    edit_tensors(folder / WEIGHTS, lambda tensors: tensors.pop(f"{LAYER}.weight"))
    with pytest.raises(OSError, match="lacks") as caught:
        gf.load(folder)
    assert lists(caught.value) == ((f"{LAYER}.weight",), (), ())


def test_unexpected_tensors(folder):
    edit_tensors(folder / WEIGHTS, lambda tensors: tensors.update(surprise=torch.ones(3)))
    with pytest.raises(gf.LoadError, match="has surprise") as caught:
        gf.load(folder)
    assert lists(caught.value) == ((), ("surprise",), ())


def test_all_mismatched_tensors(folder):
    names = (f"{LAYER}.weight", f"{LAYER}.bias")
    edit_tensors(
        folder / WEIGHTS, lambda tensors: tensors.update({n: torch.ones(3) for n in names})
    )
    with pytest.raises(gf.LoadError, match="has the shape") as caught:
        gf.load(folder)
    assert sorted(caught.value.mismatched) == sorted(names)
    assert lists(caught.value)[:2] == ((), ())


def test_a_quantized_checkpoint_with_all_three(tmp_path):
    model = gf.create("gpt2", **SIZES)
    model.quantize("int8")
    model.save(tmp_path)
    names = list(load_file(tmp_path / WEIGHTS))

    def edit(tensors):
        del tensors[names[0]]
        tensors[names[1]] = torch.ones(3)
        tensors["surprise"] = torch.ones(3)

    edit_tensors(tmp_path / WEIGHTS, edit)
    with pytest.raises(gf.LoadError) as caught:
        gf.load(tmp_path)
    assert lists(caught.value) == ((names[0],), ("surprise",), (names[1],))


def test_a_missing_shard(model, tmp_path):
    model.save(tmp_path, shard_bytes=1000)
    index = json.loads((tmp_path / f"{WEIGHTS}.index.json").read_text())["weight_map"]
    shard = sorted(index.values())[0]
    (tmp_path / shard).unlink()
    with pytest.raises(gf.LoadError, match="is not there") as caught:
        gf.load(tmp_path)
    assert caught.value.missing == tuple(sorted(n for n, place in index.items() if place == shard))


def test_an_adapter_of_another_model(folder, tmp_path):
    small, wide = gf.load(folder), gf.create("gpt2", **SIZES | {"n_embd": 16})
    deep = gf.create("gpt2", **SIZES | {"n_layer": 2})
    for name, other in {"wide": wide, "deep": deep}.items():
        other.adapters.add(LoRA(rank=2, target_modules=("c_fc",)))
        other.adapters.save(tmp_path / name)
    with pytest.raises(gf.LoadError, match="is for a matrix of") as caught:
        small.adapters.load(tmp_path / "wide")
    pair = {f"{LAYER}.lora_A.weight", f"{LAYER}.lora_B.weight"}
    assert set(caught.value.mismatched) == pair
    with pytest.raises(gf.LoadError, match="which this model does not have") as caught:
        small.adapters.load(tmp_path / "deep")
    assert set(caught.value.unexpected) == {name.replace("h.0", "h.1") for name in pair}


def test_a_missing_folder(tmp_path):
    with pytest.raises(OSError, match="There is no folder") as caught:
        gf.load(tmp_path / "elsewhere")
    assert isinstance(caught.value, gf.LoadError)
    assert lists(caught.value) == ((), (), ())


def test_a_bad_config_value(folder):
    edit_json(folder / "config.json", n_layer="two")
    with pytest.raises(ValueError, match="n_layer = 'two'; it must be a whole number") as caught:
        gf.load(folder)
    assert isinstance(caught.value, gf.ConfigError)


def test_a_bad_option(model, folder):
    with pytest.raises(gf.ConfigError, match="has no setting n_layers"):
        gf.create("gpt2", n_layers=1)
    with pytest.raises(gf.ConfigError, match="There is no dtype"):
        gf.load(folder, dtype="float33")
    with pytest.raises(gf.ConfigError, match="no adapter 'other'"):
        model.adapters.set_active("other")


def test_a_spec_error_in_config_json_keeps_its_message(model, tmp_path):
    """It is a ValueError, and must not be reported as a malformed spec."""
    native = gf.create(model.spec)
    native.save(tmp_path)
    spec = json.loads((tmp_path / "config.json").read_text())["spec"]
    spec["decoder"]["blocks"][0]["attention"]["kv_heads"] = 3
    edit_json(tmp_path / "config.json", spec=spec)
    with pytest.raises(gf.ConfigError, match=r"^2 attention heads cannot share 3 key heads evenly"):
        gf.load(tmp_path)


def test_an_unsupported_rope_type():
    with pytest.raises(NotImplementedError, match="longrope") as caught:
        gf.create("llama-7b", rope_scaling={"rope_type": "longrope", "factor": 2.0})
    assert isinstance(caught.value, gf.UnsupportedError)
    assert caught.value.field == "rope_type"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_type", "unheard-of"),
        ("quantization_config", {"quant_method": "gptq"}),
        ("auto_map", {"AutoModelForCausalLM": "modeling_other.OtherModel"}),
    ],
)
def test_an_unsupported_config_key(folder, field, value):
    edit_json(folder / "config.json", **{field: value})
    with pytest.raises(gf.UnsupportedError) as caught:
        gf.load(folder)
    assert caught.value.field == field


@pytest.mark.parametrize("device", ["toaster", "cuda:77"])
def test_an_unknown_device(folder, device):
    with pytest.raises(RuntimeError, match=f"There is no device '{device}'") as caught:
        gf.load(folder, device=device)
    assert isinstance(caught.value, gf.DeviceError)


def test_an_empty_text():
    tokenizer = train_tokenizer("bpe", texts=["to be or not to be"], vocab_size=64)
    model = gf.create("gpt2", tokenizer=tokenizer, **SIZES)
    with pytest.raises(ValueError, match="has no tokens") as caught:
        model.adapters.add(Prompt(num_virtual_tokens=2, init_text=""))
    assert isinstance(caught.value, gf.InputError)


def test_a_text_that_is_too_long(model):
    with pytest.raises(gf.InputError, match="positions end at 16"):
        model(torch.zeros(1, 17, dtype=torch.long))


@pytest.mark.parametrize("name", ["new", "old"])
def test_an_error_inside_a_save_keeps_its_message(tmp_path, name):
    """A LoadError is an OSError, and must not be reported as a full disk."""
    (tmp_path / "old").mkdir()
    error = gf.LoadError("Another file is missing.", missing=["a"])
    with pytest.raises(gf.LoadError) as caught, atomic_folder(tmp_path / name):
        raise error
    assert caught.value is error
    with pytest.raises(gf.LoadError) as caught, atomic_file(tmp_path / "file"):
        raise error
    assert caught.value is error
