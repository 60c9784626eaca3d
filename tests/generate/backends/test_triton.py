"""The Triton back end equals the modules, on a GPU or in Triton's interpreter, which
`make test-triton` uses."""

from __future__ import annotations

import os

import pytest
import torch
from cases import NAMES, Case, sample, writes

import glassformer as gf
from glassformer.generate.backends.support import compiled
from glassformer.generate.program import StepProgram
from glassformer.generate.runner import Runner
from glassformer.generate.slots import StaticCache
from glassformer.generate.strategy import GenerationRequest

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
COMPILED = [name for name in NAMES if writes(name) and isinstance(compiled(name.spec), StepProgram)]
FIRST = sample(COMPILED, "type")
pytestmark = (
    [] if INTERPRETED else [pytest.mark.gpu, pytest.mark.skipif(DEVICE == "cpu", reason="no GPU")]
)
LLAMA = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 99,
}


def triton_step(model, slots):
    from glassformer.generate.backends.triton.step import TritonStep
    from glassformer.generate.backends.triton.support import supported_program

    return TritonStep(model, supported_program(model), slots)


def difference(model, requests, steps=4, capacity=64):
    """The largest difference of logits while several tokens are written."""
    for weight in model.parameters():
        weight.data = weight.detach().contiguous()  # a file may store it transposed
    runner, count, worst = Runner(model), len(requests), 0.0
    with torch.inference_mode():
        logits = runner.read(requests, 1)
        slots = StaticCache(runner.cache, count, capacity)
        slots.lay(runner.cache)
        step = triton_step(model, slots)
        for _ in range(steps):
            tokens = logits.argmax(-1)
            logits = runner.step(torch.arange(count, device=DEVICE), tokens)
            worst = max(worst, float((step(tokens[:, None]) - logits).abs().max()))
    return worst


def requests_of(case, count):
    prompts = case.prompts((9, 4, 6)[:count], 5)
    if not case.both:
        return [GenerationRequest(i, tuple(prompt), 12) for i, prompt in enumerate(prompts)]
    begun = enumerate(zip(case.texts((3, 1, 2)[:count], seed=8), prompts, strict=True))
    return [GenerationRequest(i, tuple(text), 12, source) for i, (text, source) in begun]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        pytest.param(
            name, count, id=f"{name}-{count}", marks=() if name in FIRST else pytest.mark.slow
        )
        for name in COMPILED
        for count in (1, 3)
    ],
)
def test_the_same_logits(name, count, tmp_path):
    case = Case(name, tmp_path)
    case.model.to(DEVICE)
    assert difference(case.model, requests_of(case, count)) <= 1e-5


@pytest.mark.parametrize("count", [1, 3])
def test_many_slots_are_divided_among_programs(count):
    model = gf.create("llama-7b", seed=3, **LLAMA).to(DEVICE)
    prompts = [[(7 * i + row) % 99 for i in range(n)] for row, n in enumerate((150, 70, 9)[:count])]
    requests = [GenerationRequest(i, tuple(prompt), 9) for i, prompt in enumerate(prompts)]
    assert difference(model, requests, capacity=192) <= 1e-5


@pytest.mark.gpu
@pytest.mark.skipif(INTERPRETED, reason="the interpreter does not compute with bfloat16")
@pytest.mark.parametrize("count", [1, 3])
def test_bfloat16(count):
    model = gf.create("llama-7b", seed=3, **LLAMA).bfloat16().to(DEVICE)
    prompts = [[5, 6, 7], [9], [1, 2, 3, 4, 5]][:count]
    requests = [GenerationRequest(i, tuple(prompt), 9) for i, prompt in enumerate(prompts)]
    assert difference(model, requests) <= 0.02


def test_rows_that_change_places():
    """A row that leaves is replaced by the last one; all that a row is goes with it."""
    model = gf.create("llama-7b", seed=3, **LLAMA).to(DEVICE)
    prompts = [[5, 6, 7], [9], [1, 2, 3, 4, 5]]
    with torch.inference_mode():
        runner = Runner(model)
        runner.read([GenerationRequest(i, tuple(p), 9) for i, p in enumerate(prompts)], 1)
        slots = StaticCache(runner.cache, 3, 64)
        slots.lay(runner.cache)
        slots.rearrange(torch.tensor([2, 1, 0], device=DEVICE))
        tokens = torch.tensor([[8], [4], [6]], device=DEVICE)
        found = triton_step(model, slots)(tokens)
        wanted = runner.step(torch.tensor([2, 1, 0], device=DEVICE), tokens[:, 0])
    assert float((found - wanted).abs().max()) <= 1e-5
