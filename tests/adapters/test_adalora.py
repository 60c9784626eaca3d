"""AdaLoRA's rank allocation, compared with peft's on the same gradients, and its saved state."""

from __future__ import annotations

import json

import peft
import pytest
import torch
from beside_peft import TOLERANCE, Pair, adapted, far

from glassformer.adapters import AdaLoRA, active, after_step, penalty
from glassformer.adapters.adalora import budget
from glassformer.errors import GlassformerError

STEPS = 12
SETTINGS = AdaLoRA(
    rank=4,
    target_rank=2,
    warmup_steps=2,
    final_steps=3,
    allocation_interval=2,
    max_steps=STEPS,
    target_modules=("c_attn", "c_fc"),
)


@pytest.fixture
def pair(tmp_path):
    return Pair("GPT2LMHeadModel", tmp_path / "model")


def test_ranks_go_where_pefts_go(pair, tmp_path):
    model = adapted(pair.model(), SETTINGS)
    model.adapters.save(tmp_path / "begin")
    config = peft.PeftConfig.from_pretrained(tmp_path / "begin")
    config.rank_pattern, config.inference_mode = None, False
    theirs = peft.PeftModel.from_pretrained(
        pair.reference, tmp_path / "begin", config=config, is_trainable=True
    )
    layers = {
        name.split("base_model.model.")[1].rpartition(".lora_E")[0]: module
        for name, module in theirs.named_parameters()
        if "lora_E" in name
    }
    parts = active(model).parts
    ours = {n: p for n, p in theirs.named_parameters() if p.requires_grad}
    assert len(ours) == len(list(active(model).parameters()))
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        for name, part in parts.items():
            where = theirs.base_model.model.get_submodule(name)
            for own, other in (
                (part.a, where.lora_A),
                (part.b, where.lora_B),
                (part.e, where.lora_E),
            ):
                other = other["default"]
                with torch.no_grad():
                    change = torch.randn(own.shape, generator=generator) * 0.1
                    own += change
                    other += change
                own.grad = torch.randn(own.shape, generator=generator)
                other.grad = own.grad.clone()
        after_step(model, step)
        theirs.base_model.update_and_allocate(step)
        for name, value in layers.items():
            assert torch.allclose(parts[name].e, value, atol=1e-6), (step, name)
    kept = sum(int(part.importance.mask.sum()) for part in parts.values())
    assert kept == SETTINGS.target_rank * len(parts)
    model.adapters.save(tmp_path / "end")
    saved = json.loads((tmp_path / "end" / "adapter_config.json").read_text())
    assert sum(map(sum, saved["rank_pattern"].values())) == kept


def test_what_is_left_of_the_ranks_is_saved(pair, tmp_path):
    model = adapted(pair.model(), SETTINGS)
    for step in range(STEPS):
        model.zero_grad()
        logits = pair.logits(model)
        (logits.square().mean() + SETTINGS.orth_reg_weight * penalty(model)).backward()
        after_step(model, step)
    ours = pair.ours(model)
    model.adapters.save(tmp_path / "adapter")
    again = pair.model(adapter=tmp_path / "adapter")
    ranks = [len(part.a) for part in active(again).parts.values()]
    assert sum(ranks) == SETTINGS.target_rank * len(ranks) and len(set(ranks)) > 1
    assert far(pair.ours(again), ours) < 1e-6
    assert far(pair.theirs(pair.read_by_peft(tmp_path / "adapter")), ours) < TOLERANCE


def test_the_budget_falls_with_the_cube():
    def left(step):
        return budget(SETTINGS, step, 100, 50)

    assert [left(0), left(2), left(9), left(11)] == [100, 100, 50, 50]
    assert left(4) == int(50 * (1 - 2 / 7) ** 3 + 50)


def test_the_penalty_is_pefts(pair):
    model = adapted(pair.model(), SETTINGS)
    far_off = [
        torch.norm(gram - torch.eye(len(gram)))
        for part in active(model).parts.values()
        for gram in (part.a @ part.a.T, part.b.T @ part.b)
    ]
    assert torch.allclose(penalty(model), sum(far_off) / len(far_off))


def test_the_steps_must_be_known(pair):
    model = adapted(pair.model(), AdaLoRA(rank=4, target_rank=2))
    with pytest.raises(GlassformerError, match="set max_steps"):
        after_step(model, 0)
