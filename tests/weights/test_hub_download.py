"""Models are downloaded from a hub only when the user asks, verified, and found by its library."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import huggingface_hub
import pytest
import torch
import transformers
from hub_server import Hub
from huggingface_hub import constants

import glassformer as gf
from glassformer.weights.hub_download import side_files, weights_needed


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A small model with what repositories have beside it."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=40, n_positions=16)
    made = tmp_path_factory.mktemp("gpt2")
    model = transformers.GPT2LMHeadModel(config)
    model.save_pretrained(made)
    torch.save(model.state_dict(), made / "pytorch_model.bin")
    (made / "merges.txt").write_text("#version: 0.2\n")
    (made / "vocab.json").write_text(json.dumps({chr(33 + i): i for i in range(40)}))
    for name in ("README.md", "flax_model.msgpack", "trainer_state.json", "onnx/config.json"):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text("{}")
    return made


@pytest.fixture
def hub(tmp_path, monkeypatch, folder):
    for name in ("HF_HUB_CACHE", "XDG_CACHE_HOME", "HF_TOKEN", "GLASSFORMER_DOWNLOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)  # that many bytes stay
    monkeypatch.setattr(huggingface_hub.file_download.time, "sleep", lambda seconds: None)
    with Hub() as started:
        use_endpoint(monkeypatch, started.url)
        started.add("acme/tiny", folder)
        yield started


def use_endpoint(monkeypatch, url: str) -> None:
    """Does what HF_ENDPOINT does before the library is imported."""
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE
    path = template[template.index("/{repo_id}") :]
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + path)


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.arange(6)[None]).logits


def cached(tmp_path: Path) -> Path:
    return tmp_path / "home" / "hub" / "models--acme--tiny"


def test_nothing_is_downloaded_unless_asked(hub):
    with pytest.raises(gf.LoadError, match=r"There is no folder acme/tiny; .*--download"):
        gf.load("acme/tiny")
    assert (hub.listed, hub.sent) == (0, [])


def test_what_a_load_needs_is_downloaded_once(hub, folder, tmp_path):
    model = gf.load("acme/tiny", download=True)
    assert torch.equal(logits(model), logits(gf.load(folder)))
    names = sorted(path.rpartition("/")[2] for path, *_ in hub.sent)
    assert names == [
        "config.json", "generation_config.json", "merges.txt", "model.safetensors", "vocab.json"
    ]  # fmt: skip
    again = gf.load("acme/tiny", download=True)
    assert len(hub.sent) == 5
    assert torch.equal(logits(again), logits(gf.load("acme/tiny")))
    for name in names:  # where the library keeps them, with its names
        there = huggingface_hub.try_to_load_from_cache(
            "acme/tiny", name, cache_dir=tmp_path / "home/hub"
        )
        assert Path(there).read_bytes() == (folder / name).read_bytes()
    theirs = transformers.GPT2LMHeadModel.from_pretrained(
        "acme/tiny", cache_dir=tmp_path / "home/hub", local_files_only=True
    )
    assert torch.allclose(theirs(torch.arange(6)[None]).logits, logits(model), atol=1e-5)


def test_the_environment_allows_it(hub, monkeypatch, folder):
    monkeypatch.setenv("GLASSFORMER_DOWNLOAD", "1")
    assert torch.equal(logits(gf.load("acme/tiny@main")), logits(gf.load(folder)))


def test_what_the_library_has_fetched_is_not_fetched_again(hub, tmp_path, folder):
    shutil.copytree(folder, tmp_path / "one")
    gf.load("acme/tiny", download=True)
    before = len(hub.sent)
    hub.repositories["acme/tiny"].commit = "d" * 40
    hub.repositories["acme/tiny"].files["generation_config.json"] = b'{"max_new_tokens": 3}'
    model = gf.load("acme/tiny", download=True)
    assert model.generation_config == {"max_new_tokens": 3}
    assert len(hub.sent) == before + 1


def test_shards_and_a_pickle_where_there_is_nothing_better(hub, folder, tmp_path):
    shards = tmp_path / "shards"
    reference = transformers.GPT2LMHeadModel.from_pretrained(folder)
    reference.save_pretrained(shards, max_shard_size="8KB")
    assert not (shards / "model.safetensors").exists()
    hub.add("acme/shards", shards)
    assert torch.equal(logits(gf.load("acme/shards", download=True)), logits(gf.load(folder)))
    pickle = tmp_path / "pickle"
    pickle.mkdir()
    for name in ("config.json", "pytorch_model.bin"):
        shutil.copy(folder / name, pickle)
    hub.add("acme/pickle", pickle)
    assert torch.equal(logits(gf.load("acme/pickle", download=True)), logits(gf.load(folder)))


def test_an_interrupted_download_goes_on_where_it_was(hub, folder, tmp_path):
    size = (folder / "model.safetensors").stat().st_size
    hub.cut["model.safetensors"] = [5000, *[0] * 6]
    with pytest.raises(gf.LoadError, match="the same command continues the download"):
        gf.load("acme/tiny", download=True)
    with pytest.raises(gf.LoadError, match=r"There is no folder|no revision"):
        gf.load("acme/tiny")  # no snapshot that lacks something
    del hub.cut["model.safetensors"]
    hub.sent.clear()
    assert torch.equal(logits(gf.load("acme/tiny", download=True)), logits(gf.load(folder)))
    assert hub.requested("model.safetensors") == ["bytes=5000-"]
    assert hub.requested("config.json") == []
    assert not list(cached(tmp_path).rglob("*.incomplete"))
    assert size > 5000


def test_a_broken_connection_is_taken_up_again(hub, folder):
    hub.cut["model.safetensors"] = [3000, 2000]
    assert torch.equal(logits(gf.load("acme/tiny", download=True)), logits(gf.load(folder)))
    assert hub.requested("model.safetensors") == [None, "bytes=3000-", "bytes=5000-"]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_other_bytes_of_the_same_length_are_refused(hub, folder, tmp_path, name):
    hub.altered.add(name)
    with pytest.raises(gf.LoadError, match=f"{name} of acme/tiny arrived with another content"):
        gf.load("acme/tiny", download=True)
    assert not list(cached(tmp_path).rglob("snapshots/*/*"))
    hub.altered.clear()
    assert torch.equal(logits(gf.load("acme/tiny", download=True)), logits(gf.load(folder)))


def test_a_gated_and_a_private_repository(hub, folder, monkeypatch):
    gated = hub.add("acme/gated", folder, refusal=(403, "GatedRepo"))
    with pytest.raises(gf.LoadError, match=r"acme/gated is gated: ask for access at .*HF_TOKEN"):
        gf.load("acme/gated", download=True)
    gated.refusal = (401, "GatedRepo")
    with pytest.raises(gf.LoadError, match="is gated"):
        gf.load("acme/gated", download=True)
    hub.add("acme/private", folder, token="secret")
    with pytest.raises(gf.LoadError, match="the hub shows no model of that name"):
        gf.load("acme/private", download=True)
    monkeypatch.setenv("HF_TOKEN", "secret")
    hub.sent.clear()
    gf.load("acme/private", download=True)
    tokens = {path.rpartition("/")[2]: token for path, _, token in hub.sent}
    assert tokens["config.json"] == "Bearer secret"
    assert tokens["model.safetensors"] is None  # the store is another server


def test_what_the_hub_does_not_have(hub, folder, tmp_path):
    with pytest.raises(gf.LoadError, match="no folder acme/other, and the hub shows no model"):
        gf.load("acme/other", download=True)
    with pytest.raises(gf.LoadError, match="acme/tiny has no revision 'v9' on the hub"):
        gf.load("acme/tiny@v9", download=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "tiny.Q4_0.gguf").write_bytes(b"GGUF")
    hub.add("acme/gguf", empty)
    with pytest.raises(gf.LoadError, match=r"GGUF files alone .* hf download acme/gguf tiny"):
        gf.load("acme/gguf", download=True)
    hub.repositories["acme/tiny"].refusal = (503, "")
    with pytest.raises(gf.LoadError, match=r"did not answer for acme/tiny \(503\)"):
        gf.load("acme/tiny", download=True)


def test_names_from_the_hub_stay_inside_the_cache(hub, folder, tmp_path):
    files = hub.repositories["acme/tiny"].files
    files["../../../evil.json"] = b"{}"
    gf.load("acme/tiny", download=True)
    assert not list(tmp_path.rglob("evil.json"))
    index = {"weight_map": {"wte.weight": "../../../evil.safetensors"}}
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    del files["model.safetensors"]
    hub.repositories["acme/tiny"].commit = "e" * 40
    with pytest.raises(gf.LoadError, match="is not a plain name"):
        gf.load("acme/tiny", download=True)


def test_offline(hub, monkeypatch):
    gf.load("acme/tiny", download=True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    requests = hub.listed
    gf.load("acme/tiny", download=True)
    with pytest.raises(
        gf.LoadError, match=r"acme/other is not in the hub's cache .*HF_HUB_OFFLINE"
    ):
        gf.load("acme/other", download=True)
    assert hub.listed == requests


def test_a_hub_that_is_not_there(hub, monkeypatch):
    gf.load("acme/tiny", download=True)
    use_endpoint(monkeypatch, "http://127.0.0.1:9")
    gf.load("acme/tiny", download=True)  # from the cache
    with pytest.raises(gf.LoadError, match="acme/other was not downloaded from http://127"):
        gf.load("acme/other", download=True)


def test_without_the_library(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(gf.LoadError, match=r"pip install 'glassformer\[hub\]'"):
        gf.load("acme/tiny", download=True)


def test_the_base_of_an_adapter(hub, folder, tmp_path):
    model = gf.load(folder)
    model.adapters.add(gf.LoRA(rank=2))
    model.adapters.save(tmp_path / "adapter")
    for file in (tmp_path / "adapter").glob("glassformer.json"):
        file.unlink()
    path = tmp_path / "adapter" / "adapter_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "base_model_name_or_path": "acme/tiny"}))
    hub.add("acme/adapter", tmp_path / "adapter")
    with pytest.raises(gf.LoadError, match="is for the model acme/tiny, which is not there"):
        gf.load(tmp_path / "adapter")
    found = gf.load("acme/adapter", download=True)
    assert torch.allclose(logits(found), logits(model), atol=1e-6)
    assert torch.equal(logits(gf.load(tmp_path / "adapter")), logits(found))


def test_on_the_command_line(hub, glassformer, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_DOWNLOAD", "0")
    code, _, said = glassformer("inspect", "acme/tiny")
    assert code == 1
    assert "--download" in said
    code, shown, said = glassformer("inspect", "acme/tiny", "--download")
    assert code == 0, said
    assert "GPT2LMHeadModel" in shown


def test_which_files_of_a_repository():
    names = {
        "config.json", "tokenizer.json", "tokenizer.model", "sentencepiece.bpe.model", "vocab.txt",
        "merges.txt", "source.spm", "chat_template.jinja", "modules.json", "1_Pooling/config.json",
        "sentence_bert_config.json", "qwen.tiktoken", "vocab-src.json",
    }  # fmt: skip
    unused = {
        "README.md", "tf_model.h5", "training_args.bin", "all_results.json", "trainer_state.json",
        "requirements.txt", "openvino/config.json", "pytorch_model.bin.index.json", "rust_model.ot",
    }  # fmt: skip
    assert set(side_files(names | unused)) == names
    shards = {"model.safetensors.index.json", "model-00001-of-00002.safetensors"}
    assert weights_needed({*shards, "pytorch_model.bin", "consolidated.safetensors"}, "x") == (
        "model.safetensors.index.json",
    )
    assert weights_needed({"model.fp16.safetensors", "pytorch_model.fp16.bin"}, "x") == (
        "model.fp16.safetensors",
    )
    meta = ("consolidated.00.pth", "consolidated.01.pth")
    assert weights_needed({*meta, "params.json"}, "x") == meta
