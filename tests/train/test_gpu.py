"""Training on a GPU: bit-exact resuming, and the fast paths."""

from __future__ import annotations

import pytest
import torch
from test_families import RECORDS, OneBatch, choose, make
from test_resume import Interrupting, assert_same_run, recipe

import glassformer as gf
from glassformer.families import families
from glassformer.train import cuda_graphs
from glassformer.train.cuda_graphs import Recorded
from glassformer.train.distributed import find_worker
from glassformer.train.interrupt import TrainingInterrupted
from glassformer.train.loop import TrainingLoop
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.mixture_parts import with_heads
from glassformer.train.recipe import read_recipe
from glassformer.train.trainer import dry_run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("kind", ["full", "float16", "lora", "electra"])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, kind):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    gf.train(recipe(whole, kind, deterministic=True), device="cuda")
    again = recipe(stopped, kind, deterministic=True)
    with pytest.raises(TrainingInterrupted):
        gf.train(again, device="cuda", reporters=[Interrupting(5)])
    gf.train(again, device="cuda")
    assert_same_run(whole, stopped)


@pytest.mark.parametrize(
    "settings",
    [
        {"precision": "bfloat16", "compile": True},
        {"precision": "bfloat16", "compile": True, "gradient_checkpointing": True},
        {"precision": "float16"},
        {"precision": "bfloat16", "gradient_checkpointing": True},
    ],
)
def test_the_loss_falls(tmp_path, settings):
    run = gf.train(recipe(tmp_path / "run", max_steps=60, **settings), device="cuda")
    losses = [entry["loss"] for entry in run.entries() if "loss" in entry]
    assert losses[-1] < losses[0] - 1


def test_the_device_is_used_as_on_a_cpu(tmp_path):
    """The first losses are those of the CPU within rounding."""
    settings = {"max_steps": 3, "eval_steps": 0, "ema_decay": 0.0}
    losses = []
    for device in ("cpu", "cuda"):
        whole = recipe(tmp_path / device, **settings)
        whole["model"] = {**whole["model"], "dropout": 0.0}
        run = gf.train(whole, device=device)
        losses.append([entry["loss"] for entry in run.entries() if "loss" in entry])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_a_dry_run_measures(tmp_path):
    plan = dry_run(recipe(tmp_path / "run"), device="cuda")
    assert plan.ceiling > 1e12 and 0 < plan.utilization(plan.tokens_step / plan.seconds_step) < 1


def test_heads_that_share_keys_are_counted(tmp_path):
    whole = recipe(tmp_path / "run")
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32}
    whole["model"] = {"preset": "llama-7b", "num_layers": 1, "context_length": 32, "config": heads}
    assert dry_run(whole, device="cuda").flops_token > 0


def test_a_recording_that_fails_leaves_the_device_usable(monkeypatch):
    objective = type(make_objective("masked-lm", make("bert", "BertForMaskedLM"), {}))
    forward = objective.forward

    def lacking(self, model, batch):
        if torch.cuda.is_current_stream_capturing():
            raise torch.OutOfMemoryError("as if")
        return forward(self, model, batch)

    expected, _ = steps("bert", "float32")
    monkeypatch.setattr(objective, "forward", lacking)
    with pytest.raises(torch.OutOfMemoryError):
        steps("bert", "float32")
    monkeypatch.setattr(objective, "forward", forward)
    assert steps("bert", "float32")[0] == pytest.approx(expected, rel=1e-3)


def test_what_is_recorded_gives_the_same_bits(tmp_path, monkeypatch):
    """Evaluations and checkpoints in between."""
    settings = {
        "compile": True,
        "precision": "bfloat16",
        "deterministic": True,
        "gradient_accumulation_steps": 1,
    }
    gf.train(recipe(tmp_path / "recorded", **settings), device="cuda")
    monkeypatch.setattr(cuda_graphs, "SHAPES", 0)
    gf.train(recipe(tmp_path / "plain", **settings), device="cuda")
    assert_same_run(tmp_path / "recorded", tmp_path / "plain")


@pytest.mark.parametrize("kind", ["full", "lora", "electra", "mixture"])
def test_recorded_without_a_compiler_too(tmp_path, monkeypatch, kind):
    settings = {"precision": "bfloat16", "deterministic": True, "gradient_accumulation_steps": 1}
    gf.train(recipe(tmp_path / "recorded", kind, **settings), device="cuda")
    monkeypatch.setattr(cuda_graphs, "SHAPES", 0)
    gf.train(recipe(tmp_path / "plain", kind, **settings), device="cuda")
    assert_same_run(tmp_path / "recorded", tmp_path / "plain")


READS_TEXT = [kind for kind, f in families().items() if f.TINY and choose(kind)[1] != "plain"]


WAITS = ["transfo-xl"]  # which clusters of words a batch has is asked of the device


def steps(model_type: str, precision: str) -> tuple[list[float], TrainingLoop]:
    architecture, name = choose(model_type)
    model = make(model_type, architecture)
    objective = make_objective(name, model, {})
    given = {"max_steps": 6, "learning_rate": 0.01, "warmup_steps": 0, "precision": precision}
    whole = {"model": {"preset": "gpt2"}, "data": {"train": "unread"}, "train": given}
    feed = OneBatch(objective, RECORDS[name], 24, on_gpu=True)
    loop = TrainingLoop(read_recipe(whole), model, objective, feed, find_worker("cuda"))
    return [loop.log_entry(loop.train_step())["loss"] for _ in range(6)], loop


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("model_type", READS_TEXT)
def test_every_family_is_recorded(model_type, precision, monkeypatch):
    """Dropout included; what Python decides by chance is left as it is."""
    losses, loop = steps(model_type, precision)
    if cuda_graphs.recordable(loop.model) and model_type not in WAITS:
        assert (
            isinstance(loop.forward_backward, Recorded)
            and len(loop.forward_backward._recordings) == 1
        )
    monkeypatch.setattr(cuda_graphs, "SHAPES", 0)
    assert losses == pytest.approx(steps(model_type, precision)[0], rel=2e-3)


def mixed_steps(device: str) -> tuple[list[float], TrainingLoop]:
    """Two tasks on one body, each with padding."""
    parts = [{"name": "classification", "head": "kind", "labels": ["LABEL_0", "LABEL_1"]},
             {"name": "tagging", "head": "names", "labels": ["O", "X"]}]  # fmt: skip
    model = with_heads(make("bert", "BertModel"), parts)
    objective = make_objective("mixture", model, {"parts": parts})
    words = ["the", "cat", "sat", "on", "the", "mat"]
    records = [
        {"objective": "classification", "text": " ".join(words[:i]), "label": f"LABEL_{i % 2}"}
        for i in range(1, 5)
    ]
    records += [
        {"objective": "tagging", "words": words[:i], "tags": [*"OXOOXO"][:i]} for i in range(2, 6)
    ]
    given = {"max_steps": 6, "learning_rate": 0.01, "warmup_steps": 0, "precision": "bfloat16"}
    whole = {"model": {"preset": "gpt2"}, "data": {"train": "unread"}, "train": given}
    feed = OneBatch(objective, records, 24, on_gpu=device == "cuda")
    loop = TrainingLoop(read_recipe(whole), model, objective, feed, find_worker(device))
    return [loop.log_entry(loop.train_step())["loss"] for _ in range(6)], loop


def test_every_part_of_a_mixture_is_recorded_and_told_where_texts_end(monkeypatch):
    losses, loop = mixed_steps("cuda")
    assert (
        isinstance(loop.forward_backward, Recorded) and len(loop.forward_backward._recordings) == 2
    )
    for recording in loop.forward_backward._recordings.values():
        assert any(name.endswith("/cu_seqlens") for name in recording.batch.inputs)
    monkeypatch.setattr(cuda_graphs, "SHAPES", 0)
    assert losses == pytest.approx(mixed_steps("cuda")[0], rel=2e-3)


def test_a_pass_that_waits_for_the_device_goes_on_unrecorded(tmp_path, monkeypatch):
    objective = type(make_objective("masked-lm", make("bert", "BertForMaskedLM"), {}))
    forward = objective.forward

    def waiting(self, model, batch):
        sums = forward(self, model, batch)
        return {part: value * (value.item() < 1e9) for part, value in sums.items()}

    expected, _ = steps("bert", "float32")
    monkeypatch.setattr(objective, "forward", waiting)
    losses, loop = steps("bert", "float32")
    assert not loop.forward_backward._recordings and losses == pytest.approx(expected, rel=1e-3)
