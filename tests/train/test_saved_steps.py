"""Models of a run folder by step: kept ones, the best, the last, and the newest checkpoint."""

from __future__ import annotations

import shutil

import pytest
import torch

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.train.saved_steps import is_run, snapshots

TEXT = "the cat sat on the mat and the dog sat on the log\n" * 40


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    data = folder / "text.txt"
    data.write_text(TEXT)
    sizes = {
        "num_layers": 1,
        "num_heads": 2,
        "hidden_size": 16,
        "context_length": 16,
        "dropout": 0.0,
    }
    recipe = {
        "model": {"preset": "gpt2", **sizes},
        "tokenizer": {"type": "char"},
        "data": {"train": [str(data)], "validation": [str(data)], "num_workers": 1},
        "train": {
            "max_steps": 7,
            "batch_size": 4,
            "learning_rate": 1e-2,
            "warmup_steps": 1,
            "save_steps": 3,
            "eval_steps": 7,
            "max_eval_batches": 1,
        },
        "run": {
            "out": str(folder / "run"),
            "snapshot_steps": 2,
            "snapshots": [0, 3, 4],
            "tensorboard": False,
        },
    }
    gf.train(recipe, device="cpu")
    return folder / "run"


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_models_by_step(run):
    found = snapshots(run)
    assert [one.step for one in found] == [0, 2, 3, 4, 6, 7]
    assert [one.name for one in found] == [*[None] * 5, "model"]
    assert torch.equal(weights(found[-1].load()), weights(gf.load(run / "model")))
    far = [float((weights(one.load()) - weights(found[0].load())).norm()) for one in found]
    assert far == sorted(far) and far[0] == 0 < far[1]
    assert found[-1].loss is not None


def test_the_newest_checkpoint_is_a_model_too(run, tmp_path):
    """Of a run that was stopped: what it would go on from."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    for name in ("model", "best", "steps"):
        shutil.rmtree(copy / name)
    (only,) = snapshots(copy)
    assert only.step == 7
    assert torch.equal(weights(only.load()), weights(gf.load(run / "model")))
    shutil.rmtree(copy / "state")
    with pytest.raises(GlassformerError, match="is gone, and with it the model of step 7"):
        only.load()
    with pytest.raises(GlassformerError, match="holds no model yet"):
        snapshots(copy)


def test_a_model_with_the_steps_that_led_to_it(run, tmp_path):
    """As the zoo has one: the last model is the folder itself."""
    folder = tmp_path / "both"
    shutil.copytree(run / "model", folder)
    shutil.copytree(run / "steps", folder / "steps")
    for name in ("recipe.toml", "metrics.jsonl", "finished.json"):
        shutil.copy(run / name, folder / name)
    found = snapshots(folder)
    assert [(one.step, one.loss) for one in found] == [
        (one.step, one.loss) for one in snapshots(run)
    ]
    assert found[-1].folder == folder and found[-1].name == "model"
    assert torch.equal(weights(found[-1].load()), weights(gf.load(folder)))


def test_what_is_a_run(run):
    assert is_run(run) and not is_run(run / "model")
