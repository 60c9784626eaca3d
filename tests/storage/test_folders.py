"""Saving into a folder with files: replaced, removed and kept ones."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from faults import attempt

import glassformer as gf
from glassformer import adapters
from glassformer.storage import folders
from glassformer.storage.folders import DRAFT, PENDING, atomic_folder, complete_pending_save
from glassformer.tasks.pooling import Pooling

SIZES = {"n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 8, "vocab_size": 30}


def make(seed: int) -> gf.Model:
    return gf.create("gpt2", seed=seed, **SIZES)


def logits(model) -> torch.Tensor:
    model.eval()
    with torch.no_grad():
        return model(torch.arange(6)[None]).logits


def holds(folder, seed: int) -> bool:
    read, made = gf.load(folder).state_dict(), make(seed).state_dict()
    return read.keys() == made.keys() and all(torch.equal(read[name], made[name]) for name in made)


@pytest.fixture
def place(tmp_path):
    """A model of seed 1 in shards."""
    make(1).save(tmp_path / "model", shard_bytes=1500)
    assert (tmp_path / "model" / "model.safetensors.index.json").is_file()
    return tmp_path / "model"


def test_only_shards_that_the_old_index_names_are_removed(place):
    shards = {path.name for path in place.glob("model-*")}
    mine = (
        "my_model_backup.safetensors",
        "adapter_model.safetensors",
        "model-00001-of-00099.safetensors",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "model.safetensors.bak",
    )
    for name in mine:
        (place / name).write_text(f"mine: {name}")
    make(2).save(place)
    assert shards and not shards & {path.name for path in place.iterdir()}
    assert {name: (place / name).read_text() for name in mine} == {n: f"mine: {n}" for n in mine}
    assert not (place / "model.safetensors.index.json").exists()
    assert holds(place, 2)  # and not pytorch_model.bin


def test_what_an_index_names_and_is_no_shard_stays(place):
    outside = place.parent / "model-00001-of-00002.safetensors"
    path = place / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    named = ("../" + outside.name, str(outside), "notes.txt", "adapter_model.safetensors", 7, None)
    index["weight_map"] |= {f"x{number}": name for number, name in enumerate(named)}
    path.write_text(json.dumps(index))
    for other in (outside, place / "notes.txt", place / "adapter_model.safetensors"):
        other.write_text("mine")
    ended = attempt(lambda: make(2).save(place), place)
    assert ended.finished and ended.outside == []
    for other in (outside, place / "notes.txt", place / "adapter_model.safetensors"):
        assert other.read_text() == "mine"
    assert holds(place, 2)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_with_the_name_of_a_new_file_is_refused(tmp_path, name, linked):
    place, real = tmp_path / "model", tmp_path / "real"
    place.mkdir()
    (real if linked else place / name).mkdir()
    if linked:
        (place / name).symlink_to(real)
    (place / name / "mine.txt").write_text("mine")
    with pytest.raises(gf.GlassformerError, match=rf"{name} is a folder.*move it away"):
        make(2).save(place)
    assert [path.name for path in place.iterdir()] == [name]
    assert (place / name / "mine.txt").read_text() == "mine"


def test_a_link_in_the_place_of_a_folder_is_refused(place):
    (place.parent / "elsewhere").mkdir()
    (place / "1_Pooling").symlink_to(place.parent / "elsewhere")
    made = make(2)
    made.pooling = Pooling()
    with pytest.raises(gf.GlassformerError, match="1_Pooling is no folder of"):
        made.save(place)
    assert list((place.parent / "elsewhere").iterdir()) == []
    assert holds(place, 1)


def test_a_link_to_nothing_is_named(tmp_path):
    (tmp_path / "model").symlink_to(tmp_path / "gone")
    with pytest.raises(gf.GlassformerError, match="model is a link to nothing"):
        make(2).save(tmp_path / "model")


def test_an_adapter_may_lie_with_its_model(place):
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    model = gf.load(place).adapters.add(adapters.LoRA(rank=2, target_modules=("c_attn",)), seed=1)
    with torch.no_grad():
        next(iter(adapters.active(model).parts.values())).b.fill_(0.5)
    model.adapters.save(place)
    after = {path.name: path.read_bytes() for path in place.iterdir()}
    assert set(after) - set(before) == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "glassformer.json",
    }
    assert {name: after[name] for name in before} == before
    assert holds(place, 1)
    torch.testing.assert_close(logits(gf.load(place, adapter=place)), logits(model))
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    base = transformers.GPT2LMHeadModel.from_pretrained(place)
    theirs = peft.PeftModel.from_pretrained(base, place)
    with torch.no_grad():
        torch.testing.assert_close(theirs(torch.arange(6)[None]).logits, logits(model))


def test_an_adapter_does_not_change_how_its_model_pools(place):
    model = gf.load(place).adapters.add(adapters.LoRA(rank=2, target_modules=("c_attn",)))
    model.pooling = Pooling(modes=("max",))
    with pytest.raises(gf.GlassformerError, match="or pooling; save the adapter in its own"):
        model.adapters.save(place)
    assert not (place / "modules.json").exists()
    model.adapters.save(place.parent / "adapter")
    assert gf.load(place, adapter=place.parent / "adapter").pooling == model.pooling


def test_a_lens_in_a_models_folder_removes_nothing(glassformer, tmp_path):
    gf.load("shakespeare").save(tmp_path / "m", shard_bytes=400_000)
    before = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    words = ("To be, or not to be", "--max-steps", "1", "--out", str(tmp_path / "m"))
    code, _, said = glassformer("lens", str(tmp_path / "m"), *words)
    assert (code == 0) == (tmp_path / "m" / "lens.json").exists(), said
    for name, content in before.items():
        assert (tmp_path / "m" / name).read_bytes() == content


def test_files_of_something_else_with_the_names_of_a_lens_stay(tmp_path, glassformer):
    (tmp_path / "lens.json").write_text('{"camera": 50}')
    words = ("To be, or not to be", "--max-steps", "1", "--out", str(tmp_path))
    code, _, said = glassformer("lens", "shakespeare", *words)
    assert (
        code == 1 and "lens.json does not belong to a tuned lens" in said and "tuned_lens" in said
    )
    assert [path.name for path in tmp_path.iterdir()] == ["lens.json"]
    assert (tmp_path / "lens.json").read_text() == '{"camera": 50}'


def test_a_save_that_cannot_be_finished_is_not_read_in_part(place, monkeypatch):
    """As when the folder has become read-only since."""
    whole = attempt(lambda: make(2).save(place), place)
    commit = next(n for n, what in enumerate(whole.operations, 1) if what.endswith(PENDING))
    shutil.rmtree(place)
    make(1).save(place, shard_bytes=1500)
    attempt(lambda: make(2).save(place), place, "power", commit + 4)
    assert (place / PENDING).is_dir()

    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(folders.os, "replace", refuse)
    for read in (gf.load, gf.Tokenizer.load):
        with pytest.raises(gf.GlassformerError, match=r"not yet in its place.*Read-only.*writable"):
            read(place)
    monkeypatch.undo()
    assert holds(place, 2)
    assert not (place / PENDING).exists()


def test_drafts_of_killed_processes_are_removed_and_those_of_others_stay(tmp_path):
    for place in (tmp_path / "there", tmp_path / "new"):
        if place.name == "there":
            place.mkdir()
        ready, done = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            with atomic_folder(place):
                os.write(ready[1], b"1")
                os.read(done[0], 1)
                os._exit(0)  # as if it were killed
        os.read(ready[0], 1)
        with atomic_folder(place) as draft:
            (draft / "a").write_text("a")
        assert len([path for path in tmp_path.rglob(".*") if DRAFT in path.name]) == 1
        os.write(done[1], b"1")
        os.waitpid(child, 0)
        with atomic_folder(tmp_path / "new" if place.name == "new" else place) as draft:
            (draft / "b").write_text("b")
        if place.name == "there":
            assert sorted(path.name for path in place.iterdir()) == ["a", "b"]


def test_a_pending_save_is_only_put_into_its_own_folder(tmp_path):
    """A folder from elsewhere may hold one."""
    place, mine = tmp_path / "model", tmp_path / "mine.txt"
    mine.write_text("mine")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("mine")

    def pend(keys=(), remove=()):
        shutil.rmtree(place, ignore_errors=True)
        (place / PENDING).mkdir(parents=True)
        told = {"keys": list(keys), "remove": list(remove)}
        (place / PENDING / ".manifest.json").write_text(json.dumps(told))

    def settled():
        ended = attempt(lambda: complete_pending_save(place), place)
        assert ended.outside == []
        assert mine.read_text() == "mine" and (tmp_path / "docs" / "a.txt").read_text() == "mine"
        return ended.message

    for name in ("../mine.txt", str(mine), "..", "", 3):
        for told in ({"keys": [name]}, {"remove": [name]}):
            pend(**told)
            assert "is not a plain name" in settled()
    pend()
    (place / PENDING / "docs").mkdir()
    (place / PENDING / "docs" / "a.txt").write_text("hostile")
    (place / "docs").symlink_to(tmp_path / "docs")
    assert "is no folder of" in settled()
    pend()
    (place / PENDING / "docs").symlink_to(tmp_path / "docs")
    assert "is a link, which no save writes" in settled()
    shutil.rmtree(place)
    place.mkdir()
    (place / PENDING).symlink_to(tmp_path / "docs")
    assert settled() is None
    pend(remove=["folder"])
    (place / "folder").mkdir()
    assert settled() is None and (place / "folder").is_dir() and not (place / PENDING).exists()
