"""Models are found by name in the hub's cache, where `huggingface_hub` finds them, too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import huggingface_hub
import pytest
import torch
import transformers

import glassformer as gf
from glassformer.loading import describe
from glassformer.weights.hub_cache import cache_folder, find_in_cache, is_hub_name

COMMITS = ("a" * 40, "b" * 40)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> list[Path]:
    """Two small models."""
    made = []
    for seed in range(2):
        torch.manual_seed(seed)
        config = transformers.GPT2Config(
            n_layer=1, n_head=2, n_embd=16, vocab_size=40, n_positions=16
        )
        made.append(tmp_path_factory.mktemp("gpt2"))
        transformers.GPT2LMHeadModel(config).save_pretrained(made[-1])
    return made


@pytest.fixture
def cache(tmp_path, monkeypatch, folders) -> Path:
    """A cache as huggingface_hub lays it out: links from snapshots to blobs."""
    home = tmp_path / "home"
    for name in ("models--acme--tiny", "models--tiny-gpt2"):
        repository = home / "hub" / name
        for commit, folder in zip(COMMITS, folders, strict=True):
            snapshot = repository / "snapshots" / commit
            snapshot.mkdir(parents=True)
            (repository / "blobs").mkdir(exist_ok=True)
            for file in folder.iterdir():
                blob = repository / "blobs" / f"{commit}-{file.name}"
                shutil.copy(file, blob)
                (snapshot / file.name).symlink_to(Path("../../blobs") / blob.name)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(COMMITS[0])
        (repository / "refs" / "v2").write_text(COMMITS[1])
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(home))
    return home / "hub"


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.arange(6)[None]).logits


@pytest.mark.parametrize(
    ("name", "which"),
    [
        ("acme/tiny", 0),
        ("tiny-gpt2", 0),
        ("acme/tiny@main", 0),
        ("acme/tiny@v2", 1),
        (f"acme/tiny@{COMMITS[1]}", 1),
        (f"acme/tiny@{COMMITS[1][:8]}", 1),
    ],
)
def test_a_name_is_the_model_of_the_cache(cache, folders, name, which):
    wanted = transformers.GPT2LMHeadModel.from_pretrained(folders[which]).eval()
    with torch.no_grad():
        theirs = wanted(torch.arange(6)[None]).logits
    assert torch.allclose(logits(gf.load(name)), theirs, atol=1e-5)


def test_the_same_snapshot_as_the_hubs_own_library(cache):
    for revision in ("main", "v2"):
        file = huggingface_hub.try_to_load_from_cache(
            "acme/tiny", "config.json", revision=revision, cache_dir=cache
        )
        assert find_in_cache(f"acme/tiny@{revision}") == Path(file).parent


def test_the_folder_of_a_repository(cache):
    by_folder = gf.load(cache / "models--acme--tiny")
    assert torch.equal(logits(by_folder), logits(gf.load("acme/tiny")))


def test_a_reference_that_is_damaged(cache):
    (cache / "models--acme--tiny" / "refs" / "main").write_bytes(b"\xff\xfe\0")
    with pytest.raises(gf.LoadError, match="no revision 'main'; it has v2"):
        gf.load("acme/tiny")


def test_what_is_not_there(cache, monkeypatch):
    with pytest.raises(gf.LoadError, match=r"no revision 'v3'; it has main, v2, a{40}"):
        gf.load("acme/tiny@v3")
    with pytest.raises(gf.LoadError, match="There is no folder acme/other"):
        gf.load("acme/other")
    for name in ("../tiny", "acme/tiny@/etc/hostname", "acme/tiny@a//b", "acme/tiny@"):
        assert find_in_cache(name) is None
    monkeypatch.setenv("HF_HUB_CACHE", str(cache / "elsewhere"))
    assert cache_folder() == cache / "elsewhere"
    with pytest.raises(gf.LoadError, match="There is no folder acme/tiny"):
        gf.load("acme/tiny")


def test_the_cache_is_where_the_hubs_own_library_looks(cache, tmp_path, monkeypatch):
    for settings, folder in (
        ({"HUGGINGFACE_HUB_CACHE": str(tmp_path / "old")}, tmp_path / "old"),
        ({"HF_HUB_CACHE": "$HF_HOME/other"}, cache.parent / "other"),
        ({"HF_HUB_CACHE": ""}, cache),
    ):
        with monkeypatch.context() as changed:
            for name, value in settings.items():
                changed.setenv(name, value)
            assert cache_folder() == folder


def test_a_reference_to_files_that_are_not_there(cache):
    (cache / "models--acme--tiny" / "refs" / "main").write_text("c" * 40)
    shutil.rmtree(cache / "models--acme--tiny" / "snapshots" / COMMITS[0])
    with pytest.raises(gf.LoadError, match=r"no revision 'main'; it has v2, b{40}\."):
        gf.load("acme/tiny")
    (cache / "models--acme--tiny" / "refs" / "main").unlink()
    assert gf.load("acme/tiny").source.name == COMMITS[1]  # the only one there is


def test_a_snapshot_without_all_files(cache):
    snapshot = cache / "models--acme--tiny" / "snapshots" / COMMITS[0]
    (snapshot / "model.safetensors").resolve().unlink()  # its link stays
    hint = f"--download .* gets what acme/tiny@{COMMITS[0]} lacks here"
    with pytest.raises(gf.LoadError, match=rf"There is no file .*; get it\. {hint}"):
        gf.load("acme/tiny")
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(gf.LoadError, match=f"has no weights: .* {hint}"):
        gf.load("acme/tiny")
    (snapshot / "config.json").unlink()
    with pytest.raises(gf.LoadError, match=f"has no config.json, .* {hint}"):
        gf.load("acme/tiny")


def test_a_path_is_no_name_on_the_hub():
    assert is_hub_name("acme/tiny") and is_hub_name("tiny-gpt2@v2")
    assert not any(map(is_hub_name, ("./tiny-gpt2", "../tiny", "acme/.tiny", "-tiny", "a/b/c")))


def test_an_adapter_and_its_base_by_name(cache, tmp_path, monkeypatch):
    base = gf.load("acme/tiny@v2")
    base.adapters.add(gf.LoRA(rank=2))
    base.adapters.save(tmp_path / "adapter")
    described = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert described["base_model_name_or_path"] == "acme/tiny"
    assert described["revision"] == COMMITS[1]
    assert torch.equal(logits(gf.load(tmp_path / "adapter")), logits(base))
    peft_alone = tmp_path / "peft"
    peft_alone.mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(tmp_path / "adapter" / name, peft_alone)
    found = gf.load(peft_alone)  # of the revision, not of "main"
    assert torch.equal(logits(found), logits(base))
    snapshot = cache / "models--acme--adapter" / "snapshots" / COMMITS[0]
    shutil.copytree(peft_alone, snapshot)
    for named in (gf.load("acme/adapter"), gf.load("acme/tiny@v2", adapter="acme/adapter")):
        assert torch.equal(logits(named), logits(base))
    moved = tmp_path / "elsewhere"
    shutil.move(cache, moved)
    monkeypatch.setenv("HF_HUB_CACHE", str(moved))
    assert torch.equal(logits(gf.load(tmp_path / "adapter")), logits(base))


def test_a_name_without_an_organization_is_described(cache):
    assert describe("tiny-gpt2@v2")[2].decoder.width == 16
    assert describe("gpt2")[2].decoder.width == 768  # the preset
    with pytest.raises(gf.LoadError, match=r"There is no folder gpt3x; .* --download"):
        describe("gpt3x", or_preset=False)


def test_a_folder_goes_before_the_cache(cache, folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folders[1], tmp_path / "tiny-gpt2")
    assert torch.equal(logits(gf.load("tiny-gpt2")), logits(gf.load(folders[1])))


def test_on_the_command_line(cache, glassformer):
    code, shown, said = glassformer("inspect", "acme/tiny@v2")
    assert code == 0, said
    assert "GPT2LMHeadModel" in shown
