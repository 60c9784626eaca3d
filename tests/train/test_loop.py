"""The training loop: a single step, and the callbacks between steps."""

from __future__ import annotations

import copy
import functools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from feeds import Rows
from torch.utils.flop_counter import sdpa_flop_count

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.text import train as train_tokenizer
from glassformer.train import fused_cross_entropy
from glassformer.train.distributed import find_worker
from glassformer.train.estimate import _attention_flops, estimate_run
from glassformer.train.export import export_model
from glassformer.train.loop import TrainingLoop
from glassformer.train.objectives import make_objective
from glassformer.train.open_run import open_run
from glassformer.train.recipe import Recipe, read_recipe
from glassformer.train.trainer import Trainer

TEXT = "the cat sat on the mat and the dog sat on the log while the sun went down. " * 8
TINY = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
DRY = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
EPS = 1e-3  # Adam makes whole steps of gradients that are zero but for rounding; not with this
TOKENIZER = train_tokenizer("char", texts=[TEXT])


def recipe(folder: Path | str = "run", **train) -> Recipe:
    settings = {
        "max_steps": 6,
        "batch_size": 4,
        "learning_rate": 0.01,
        "warmup_steps": 2,
        "seed": 3,
        **train,
    }
    return read_recipe(
        {
            "model": {"preset": "gpt2"},
            "data": {"train": "unread.txt"},
            "train": settings,
            "run": {"out": str(folder), "logging_steps": 1},
        }
    )


def loop_of(recipe: Recipe, *, valid: bool = True, **settings) -> TrainingLoop:
    sizes = {**TINY, **settings, "vocab_size": TOKENIZER.size, "bos_token_id": 1, "eos_token_id": 2}
    model = gf.create("gpt2", recipe.train.seed, tokenizer=TOKENIZER, **sizes)
    objective = make_objective("causal-lm", model, {})
    ids = np.array(TOKENIZER.encode(TEXT, special=False).ids, dtype=np.int32)
    rows = [{"tokens": ids[i : i + 17]} for i in range(0, len(ids) - 17, 16)]
    feed = Rows(objective, rows[4:], rows[:4] if valid else [], recipe.train)
    return TrainingLoop(recipe, model, objective, feed, find_worker("cpu"))


def go(loop: TrainingLoop) -> tuple[Path, list[dict]]:
    with open_run(loop.recipe) as run:
        Trainer(loop).take_steps(run, estimate_run(loop))
        return run.folder, run.entries()


def weights(loop: TrainingLoop) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in loop.checkpoint.tensors().items()}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def test_k_accumulations_are_one_batch_of_k_times_the_rows():
    one = loop_of(recipe(batch_size=12, eps=EPS), **DRY)
    three = loop_of(recipe(batch_size=4, gradient_accumulation_steps=3, eps=EPS), **DRY)
    for _ in range(4):
        whole, parts = one.train_step(), three.train_step()
        assert torch.allclose(whole.grad_norm, parts.grad_norm, atol=1e-6)
    for name, weight in weights(one).items():
        assert torch.allclose(weight, weights(three)[name], atol=1e-6), name


def test_a_step_is_that_of_plain_torch():
    """Forward, mean cross-entropy, clipping and AdamW written out."""
    loop = loop_of(
        recipe(max_grad_norm=0.1, lr_scheduler="constant", warmup_steps=0, eps=EPS), **DRY
    )
    model = copy.deepcopy(loop.model).train()
    decays = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    plain = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=EPS)
    for step in range(3):
        (batch,) = loop.data.batches(step)
        logits = model(batch.inputs["input_ids"]).logits
        target = batch.targets["1"]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
        length = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        plain.step()
        plain.zero_grad()
        taken = loop.train_step()
        assert torch.allclose(taken.grad_norm, length, rtol=1e-5)
        assert taken.sums["lm"] / taken.counts["lm"] == pytest.approx(loss.item(), abs=1e-5)
    for ours, theirs in zip(loop.model.parameters(), model.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


def test_in_bfloat16_the_stream_is_so_too_and_weights_are_not():
    wide, narrow = loop_of(recipe(), **DRY), loop_of(recipe(precision="bfloat16"), **DRY)
    given = []
    for block in narrow.model.decoder.blocks:
        block.register_forward_hook(lambda block, inputs, out: given.extend((inputs[0], out)))
    losses = []
    for loop in (wide, narrow):
        taken = loop.train_step()
        losses.append(float(taken.sums["lm"] / taken.counts["lm"]))
    assert len(given) == 4 and {x.dtype for x in given} == {torch.bfloat16}
    assert {p.dtype for p in narrow.module.parameters()} == {torch.float32}
    assert losses[0] != losses[1] == pytest.approx(losses[0], rel=1e-2)


def test_a_step_depends_on_seed_and_number_alone():
    """Random numbers drawn in between, and an evaluation, change nothing."""
    one, other = loop_of(recipe()), loop_of(recipe())
    for _ in range(3):
        one.train_step()
    for _ in range(3):
        torch.rand(7)
        other.evaluate()
        other.train_step()
    assert_same(weights(one), weights(other))
    third = loop_of(recipe(seed=4))
    third.train_step()
    assert not torch.equal(third.parameters[0], one.parameters[0])


def test_the_average_is_that_of_a_plain_computation():
    loop = loop_of(recipe(ema_decay=0.8))
    name = next(iter(loop.average.tensors))
    weight = dict(loop.module.named_parameters())[name]
    seen = []
    for _ in range(5):
        loop.train_step()
        seen.append(weight.detach().clone())
    shares = [0.8 ** (4 - i) for i in range(5)]  # of the weights before the first step, none
    expected = sum(s * w for s, w in zip(shares, seen, strict=True)) / sum(shares)
    assert torch.allclose(loop.average.tensors[name], expected, atol=1e-7)
    before = weight.detach().clone()
    with loop.average.in_place():
        assert torch.allclose(weight, expected, atol=1e-7)
    assert torch.equal(weight, before)


def test_evaluation_is_the_mean_over_all_tokens():
    loop = loop_of(recipe())
    loop.train_step()
    found = loop.evaluate()
    model = loop.model.eval()
    total = count = 0.0
    for example in loop.data.held_out:
        tokens = torch.tensor(example["tokens"]).long()
        logits = model(tokens[None, :-1]).logits[0]
        total += torch.nn.functional.cross_entropy(logits, tokens[1:], reduction="sum").item()
        count += len(tokens) - 1
    assert found["loss"] == pytest.approx(total / count, abs=1e-5)
    assert found["perplexity"] == pytest.approx(np.exp(total / count), rel=1e-5)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_the_loss_falls_in_half_precision(precision):
    loop = loop_of(recipe(max_steps=40, precision=precision, warmup_steps=0))
    first = loop.evaluate()["loss"]
    for _ in range(40):
        loop.train_step()
    assert loop.evaluate()["loss"] < first - 0.5
    assert all(parameter.dtype == torch.float32 for parameter in loop.parameters)


def test_float16_leaves_out_a_step_that_overflows():
    loop = loop_of(recipe(precision="float16"))
    scale = loop.precision.state()["scale"]
    loop.precision.restore({**loop.precision.state(), "scale": 2.0**127})
    before = weights(loop)
    loop.train_step()
    after = weights(loop)
    assert_same(
        {k: v for k, v in before.items() if k.startswith("weights")},
        {k: v for k, v in after.items() if k.startswith("weights")},
    )
    assert loop.precision.state()["scale"] == 2.0**126 != scale


def test_layers_that_are_computed_again_give_the_same_gradients():
    plain, again = loop_of(recipe()), loop_of(recipe(gradient_checkpointing=True))
    for _ in range(3):
        plain.train_step()
        again.train_step()
    assert_same(weights(plain), weights(again))


def test_a_plan_counts_the_vocabulary_in_chunks_too(monkeypatch):
    whole = estimate_run(loop_of(recipe())).flops_token
    monkeypatch.setattr(fused_cross_entropy, "BYTES", {"cpu": 4})
    assert estimate_run(loop_of(recipe())).flops_token == whole > 6 * 16 * TOKENIZER.size


def test_heads_that_share_keys_are_counted_as_torch_counts_them():
    q, kv = (2, 6, 8, 16), (2, 3, 12, 16)
    assert _attention_flops(q, kv, kv) == sdpa_flop_count(q, kv, kv)


def test_layers_that_are_computed_again_hold_less():
    plain = estimate_run(loop_of(recipe()), measure=True)
    again = estimate_run(loop_of(recipe(gradient_checkpointing=True)), measure=True)
    assert again.memory.activations < plain.memory.activations / 2


def test_the_compiled_step_is_the_same_within_rounding(monkeypatch):
    """Traced forward and backward as for the GPU; making C++ of it would take a minute."""
    traced = functools.partial(torch.compile, backend="aot_eager", fullgraph=True)
    monkeypatch.setattr(torch, "compile", traced)
    plain = loop_of(recipe(), **DRY)
    compiled = loop_of(recipe(compile=True), **DRY)
    for _ in range(3):
        one, other = plain.train_step(), compiled.train_step()
        assert torch.allclose(one.grad_norm, other.grad_norm, rtol=1e-4)


def test_a_frugal_compiled_step_is_the_same(monkeypatch):
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    plain = loop_of(recipe(), **DRY)
    frugal = loop_of(recipe(compile=True, gradient_checkpointing=True), **DRY)
    assert torch.allclose(plain.train_step().grad_norm, frugal.train_step().grad_norm, rtol=1e-4)
    assert frugal.evaluate()["loss"] == pytest.approx(plain.evaluate()["loss"], rel=1e-4)


def test_metrics_best_and_last(tmp_path):
    loop = loop_of(recipe(tmp_path / "run", eval_steps=2, max_steps=6, learning_rate=0.05))
    folder, entries = go(loop)
    steps = [entry for entry in entries if "loss" in entry]
    valid = [entry for entry in entries if "valid" in entry]
    assert [entry["step"] for entry in steps] == [1, 2, 3, 4, 5, 6]
    assert [entry["step"] for entry in valid] == [2, 4, 6]
    assert steps[-1]["tokens"] == 6 * 4 * 16
    assert set(steps[0]) == {
        "step", "loss", "parts", "learning_rate", "gradient", "tokens", "speed",
    }  # fmt: skip
    best = min(valid, key=lambda entry: entry["valid"]["loss"])
    assert loop.state.best == best["valid"]["loss"] and loop.state.best_step == best["step"]
    (kept,) = (folder / "state").iterdir()
    assert json.loads((kept / "notes.json").read_text())["step"] == 6
    saved = gf.load(folder / "best")
    assert saved.tokenizer is not None and saved.tokenizer.size == TOKENIZER.size


def test_a_run_shorter_than_every_interval(tmp_path):
    """The rate reaches its peak, and the last step is logged, evaluated and saved."""
    usual = {"max_steps": 5, "batch_size": 4, "learning_rate": 0.01}
    tables = recipe(tmp_path / "run").tables() | {"train": usual, "run": {}}
    tables["run"] = {"out": str(tmp_path / "run")}
    loop = loop_of(read_recipe(tables))
    settings = loop.settings
    assert settings.num_warmup_steps == 1 and min(settings.save_steps, settings.eval_steps) > 5
    rates = [settings.learning_rate * loop.schedule(step) for step in range(5)]
    assert max(rates) == rates[1] == 0.01
    folder, entries = go(loop)
    assert [entry["step"] for entry in entries if "loss" in entry] == [1, 5]
    assert [entry["step"] for entry in entries if "valid" in entry] == [5]
    assert [one.name for one in (folder / "state").iterdir()] == ["step-0000000005"]


def test_the_best_model_is_that_of_the_best_evaluation(tmp_path):
    """A rate so high that it gets worse: the best is not the last."""
    loop = loop_of(recipe(tmp_path / "run", eval_steps=1, max_steps=5, warmup_steps=0))
    made = {}
    measure = loop.evaluate

    def evaluate():
        found = measure()
        found["loss"] = {3: 0.5}.get(loop.state.step, 1.0 + loop.state.step)
        made[loop.state.step] = copy.deepcopy(loop.model.state_dict())
        return found

    loop.evaluate = evaluate
    folder, _ = go(loop)
    assert loop.state.best_step == 3
    saved = gf.load(folder / "best").state_dict()
    assert all(torch.equal(saved[name], tensor) for name, tensor in made[3].items())


def test_it_stops_when_nothing_gets_better(tmp_path):
    loop = loop_of(recipe(tmp_path / "run", eval_steps=1, early_stopping_patience=2, max_steps=50))
    loop.evaluate = lambda: {"loss": {1: 3.0, 2: 2.0, 3: 2.5}.get(loop.state.step, 2.1)}
    _, entries = go(loop)
    assert loop.state.stopped and loop.state.step == 4
    assert entries[-1]["step"] == 4


def test_an_average_is_what_is_judged_and_published(tmp_path):
    loop = loop_of(recipe(tmp_path / "run", ema_decay=0.5, max_steps=3))
    folder, entries = go(loop)
    export_model(loop, folder / "model")
    published = gf.load(folder / "model")
    name, average = next(iter(loop.average.tensors.items()))
    assert torch.equal(published.get_parameter(name.removeprefix("net.")), average)
    with loop.average.in_place():
        assert torch.equal(loop.module.get_parameter(name), published.get_parameter(name[4:]))
        assert not torch.equal(average, published.get_parameter(name[4:]))
    assert entries[-1]["valid"]["loss"] == pytest.approx(loop.evaluate()["loss"], abs=1e-12)


def test_a_loss_that_is_no_number_stops_the_run(tmp_path):
    loop = loop_of(recipe(tmp_path / "run", max_steps=5, save_steps=1))
    take = loop.train_step

    def spoiled():
        if loop.state.step == 2:
            loop.parameters[0].data.fill_(float("nan"))
        return take()

    loop.train_step = spoiled
    with pytest.raises(GlassformerError, match=r"loss of step 3 is nan; lower train.learning_rate"):
        go(loop)
    assert [path.name for path in (tmp_path / "run/state").iterdir()] == ["step-0000000002"]


def test_a_figure_that_nobody_measures_is_named(tmp_path):
    whole = recipe(tmp_path / "run", max_steps=1)
    loop = loop_of(replace(whole, train=replace(whole.train, metric_for_best_model="accuracy")))
    with pytest.raises(GlassformerError, match="'accuracy', and evaluation gives loss, perplexity"):
        go(loop)
