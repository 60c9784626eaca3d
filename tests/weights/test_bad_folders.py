"""Every way a folder can be wrong is one sentence that names the thing: in Python and, without a
traceback and with an exit code, on the command line."""

from __future__ import annotations

import json
import os
import pickle

import pytest
import torch

import glassformer as gf


def no_folder(folder):
    folder.path = folder.path.with_name("elsewhere")
    return "There is no folder"


def no_config(folder):
    (folder.path / "config.json").unlink()
    return "has no config.json"


def config_is_not_json(folder):
    (folder.path / "config.json").write_text('{"model_type": "gpt2",')
    return "config.json is not JSON"


def config_is_a_list(folder):
    (folder.path / "config.json").write_text("[]")
    return "must hold a JSON object"


def no_weights(folder):
    folder.weights.unlink()
    return "has no weights"


def tensor_missing(folder):
    tensors = folder.tensors
    del tensors["transformer.h.1.mlp.c_fc.weight"]
    folder.write(tensors)
    return "lacks transformer.h.1.mlp.c_fc.weight"


def tensor_extra(folder):
    folder.write({**folder.tensors, "transformer.h.2.surprise": torch.ones(3)})
    return "has transformer.h.2.surprise, which this model does not have"


def tensor_transposed(folder):
    tensors = folder.tensors
    name = "transformer.h.0.mlp.c_fc.weight"
    folder.write({**tensors, name: tensors[name].t().contiguous()})
    return rf"{name} has the shape \[64, 16\] in the file and \[16, 64\] by config.json"


def tied_tensors_differ(folder):
    wte = folder.tensors["transformer.wte.weight"]
    folder.write({**folder.tensors, "lm_head.weight": wte + 1})
    return "transformer.wte.weight and lm_head.weight differ"


def file_truncated(folder):
    folder.weights.write_bytes(folder.weights.read_bytes()[:-100])
    return "is not a whole safetensors file"


def header_truncated(folder):
    folder.weights.write_bytes(folder.weights.read_bytes()[:40])
    return "is not a whole safetensors file"


def file_empty(folder):
    folder.weights.write_bytes(b"")
    return "model.safetensors is empty"


def file_is_text(folder):
    folder.weights.write_text("version https://git-lfs.github.com/spec/v1\n")
    return "is not a whole safetensors file"


def shard_missing(folder):
    folder.model.save(folder.path, shard_bytes=6000)
    next(folder.path.glob("model-00002-of-*.safetensors")).unlink()
    return r"names model-00002-of-\d+.safetensors, which is not there"


def index_is_broken(folder):
    folder.model.save(folder.path, shard_bytes=6000)
    (folder.path / "model.safetensors.index.json").write_text("{}")
    return "is not an index of shards"


def index_leaves_the_folder(folder):
    folder.weights.unlink()
    index = {"weight_map": {"x": "../../etc/passwd"}}
    (folder.path / "model.safetensors.index.json").write_text(json.dumps(index))
    return "which is not a plain name"


def index_and_shard_disagree(folder):
    folder.model.save(folder.path, shard_bytes=6000)
    path = folder.path / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["transformer.ghost"] = "model-00001-of-00009.safetensors"
    shards = sorted(set(index["weight_map"].values()) - {"model-00001-of-00009.safetensors"})
    index["weight_map"]["transformer.ghost"] = shards[0]
    path.write_text(json.dumps(index))
    return "do not agree on the tensor transformer.ghost"


def key_that_changes_the_model(folder):
    folder.set(is_causal=False)
    return "sets is_causal to False, with which the reference computes another model than GPT-2"


def unknown_model_type(folder):
    folder.set(model_type="gpt17")
    return "the model_type 'gpt17'; known are"


def no_model_type(folder):
    config = folder.config
    del config["model_type"], config["architectures"]
    (folder.path / "config.json").write_text(json.dumps({**config, "n_head": 4, "n_embd": 8}))
    return "config.json has no model_type, and neither its class nor the tensors say which it is"


def unknown_class(folder):
    folder.set(architectures=["GPT2ForPoetry"])
    folder.write({**folder.tensors, "meter.weight": torch.ones(3)})
    return "GPT-2 has no class 'GPT2ForPoetry', and the tensors fit none of GPT2Model"


def key_of_a_wrong_type(folder):
    folder.set(n_layer="two")
    return "config.json has n_layer = 'two'; it must be a whole number"


def config_contradicts_the_width(folder):
    folder.set(n_embd=24, n_head=3)
    return r"has the shape \[30, 16\] in the file and \[30, 24\] by config.json"


def config_has_more_layers(folder):
    folder.set(n_layer=3)
    return "lacks transformer.h.2"


def config_has_fewer_layers(folder):
    folder.set(n_layer=1)
    return "has transformer.h.1"


def heads_do_not_divide_the_width(folder):
    folder.set(n_head=3)
    return "3 heads over a width of 16"


def unknown_activation(folder):
    folder.set(activation_function="geluu")
    return "activation_function = 'geluu'; known activations are"


class Malicious:
    """What a hostile pickle does: run a command as soon as it is opened."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return (os.system, (self.command,))


def malicious_pickle(folder):
    state = {**folder.tensors, "evil": Malicious(f"touch {folder.path}/owned")}
    folder.weights.unlink()
    torch.save(state, folder.path / "pytorch_model.bin")
    return r"holds something else than tensors .*posix.system.* and was not read"


def malicious_plain_pickle(folder):
    folder.weights.unlink()
    with (folder.path / "pytorch_model.bin").open("wb") as file:
        pickle.dump(Malicious(f"touch {folder.path}/owned"), file)
    return "holds something else than tensors|is not a whole PyTorch file"


def bin_empty(folder):
    (folder.path / "pytorch_model.bin").touch()
    folder.weights.unlink()
    return "pytorch_model.bin is empty"


def bin_truncated(folder):
    path = folder.path / "pytorch_model.bin"
    torch.save(folder.tensors, path)
    folder.weights.unlink()
    path.write_bytes(path.read_bytes()[:-2000])
    return "is not a whole PyTorch file|holds something else"


def bin_holds_no_tensors(folder):
    torch.save({"step": 3}, folder.path / "pytorch_model.bin")
    folder.weights.unlink()
    return "is not a table of tensors"


SPOILERS = [
    value
    for value in list(globals().values())
    if getattr(value, "__module__", None) == __name__ and callable(value) and value is not Malicious
]


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__)
def test_a_bad_folder_is_refused_by_name(folder, spoil):
    message = spoil(folder)
    with pytest.raises(gf.GlassformerError, match=message) as caught:
        gf.load(folder.path)
    text = str(caught.value)
    assert "\n" not in text and text.endswith(".")
    assert not (folder.path / "owned").exists()


@pytest.mark.parametrize(
    "spoil",
    [
        no_folder,
        tensor_missing,
        tensor_extra,
        tensor_transposed,
        file_truncated,
        file_empty,
        shard_missing,
        key_that_changes_the_model,
        unknown_model_type,
        malicious_pickle,
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_on_the_command_line_too(glassformer, folder, spoil):
    spoil(folder)
    by_config = (no_folder, key_that_changes_the_model, unknown_model_type)
    verb = "inspect" if spoil in by_config else "check"
    code, _, error = glassformer(verb, str(folder.path))
    assert code == 1 and error.startswith("error: ")
    assert not (folder.path / "owned").exists()


def test_the_message_offers_the_class_that_the_tensors_are_of(folder):
    folder.set(architectures=["GPT2ForTokenClassification"])
    folder.write({**folder.tensors, "score.weight": torch.zeros(2, 16)})
    with pytest.raises(gf.GlassformerError, match="those of GPT2ForSequenceClassification"):
        gf.load(folder.path)
    assert gf.load(folder.path, architecture="GPT2ForSequenceClassification").spec.labels
