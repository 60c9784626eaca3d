"""An adapter's base that has changed under its path since the adapter was trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer as gf
from glassformer.adapters import LoRA
from glassformer.errors import LoadError
from glassformer.loading import merged

SIZES = {"n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 50}
IDS = torch.arange(8)[None]


@pytest.fixture
def adapted(tmp_path) -> tuple[Path, Path, torch.Tensor]:
    """A base, an adapter of it, and the logits of both together."""
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    gf.create("gpt2", seed=1, **SIZES).save(base)
    model = gf.load(base)
    model.adapters.add(LoRA(rank=2))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * (len(name) % 7))
    model.adapters.save(adapter)
    return base, adapter, logits(gf.load(adapter))


def logits(model: gf.Model) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(IDS).logits


def retrain(base: Path) -> None:
    model = gf.load(base)
    with torch.no_grad():
        next(model.parameters()).mul_(1.001)
    model.save(base)


def change_config(base: Path) -> None:
    config = json.loads((base / "config.json").read_text())
    config["layer_norm_epsilon"] = 1e-3
    (base / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("change", [retrain, change_config])
def test_a_base_that_was_changed_in_place_is_noticed(adapted, change):
    base, adapter, before = adapted
    kept = shutil.copytree(base, base.parent / "kept")
    change(base)
    for load in (lambda: gf.load(adapter), lambda: gf.load(base, adapter=adapter)):
        with pytest.raises(LoadError, match=rf"{base} have changed since the adapter .*gf\.load"):
            load()
    assert torch.equal(logits(gf.load(kept, adapter=adapter)), before)  # as the sentence says
    shutil.rmtree(base)
    shutil.copytree(kept, base)
    assert torch.equal(logits(gf.load(adapter)), before)


def test_the_same_weights_in_other_files_are_the_same_base(adapted):
    base, adapter, before = adapted
    tensors = load_file(base / "model.safetensors")
    (base / "model.safetensors").unlink()
    names = sorted(tensors)
    index = {}
    for number, part in enumerate((names[:3], names[3:])):
        shard = f"model-{number}.safetensors"
        save_file({name: tensors[name] for name in part}, base / shard, metadata={"format": "pt"})
        index |= dict.fromkeys(part, shard)
    (base / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({"transformers_version": "9.9", **config}))
    assert torch.equal(logits(gf.load(adapter)), before)


def test_a_base_that_moved_with_its_adapter_is_checked_too(adapted):
    base, adapter, before = adapted
    other = base.parent / "elsewhere"
    other.mkdir()
    shutil.move(base, other / "base")
    shutil.move(adapter, other / "adapter")
    assert torch.equal(logits(gf.load(other / "adapter")), before)
    retrain(other / "base")
    with pytest.raises(LoadError, match="have changed since the adapter"):
        gf.load(other / "adapter")


def test_an_adapter_of_an_older_version_is_loaded(adapted):
    base, adapter, before = adapted
    path = adapter / "glassformer.json"
    described = json.loads(path.read_text())
    del described["base"]["fingerprint"]
    path.write_text(json.dumps(described))
    assert torch.equal(logits(gf.load(adapter)), before)
    retrain(base)
    gf.load(adapter)


def test_an_adapter_that_is_saved_again_knows_its_base(adapted, tmp_path):
    base, adapter, before = adapted
    gf.load(adapter).adapters.save(tmp_path / "again")
    gf.load(base, adapter=adapter).adapters.save(tmp_path / "named")
    for name in ("again", "named"):
        assert torch.equal(logits(gf.load(tmp_path / name)), before)
    retrain(base)
    for name in ("again", "named"):
        with pytest.raises(LoadError, match="have changed since the adapter"):
            gf.load(tmp_path / name)


def test_an_adapter_whose_base_is_an_adapter(adapted, tmp_path):
    _, inner, before = adapted
    outer = merged(gf.load(inner))
    outer.adapters.add(LoRA(rank=1)).adapters.save(tmp_path / "outer")
    assert torch.allclose(logits(gf.load(tmp_path / "outer")), before, atol=1e-4)
    file = inner / "adapter_model.safetensors"
    save_file({name: 2 * tensor for name, tensor in load_file(file).items()}, file)
    with pytest.raises(LoadError, match="have changed since the adapter"):
        gf.load(tmp_path / "outer")
