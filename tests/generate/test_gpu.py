"""On a GPU the same tokens, in float32, as on the CPU: played back, or step by step."""

from __future__ import annotations

import pytest
import torch
from cases import Case
from writers import FIRST

import glassformer as gf
from glassformer.generate import prefix

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
]
PROMPTS = ["To be, or", "ROMEO:\n", "Is the day so young?", "A", "My lord, the king", "Once"]
KNOBS = {
    "greedy": {},
    "sampled": {"do_sample": True, "seed": 3, "top_p": 0.9, "num_return_sequences": 2},
    "processed": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3},
    "beam": {"num_beams": 3, "num_return_sequences": 2},
    "stopped": {"stop_strings": ["\n"]},
    "refilled": {"batch_size": 2},
    "one by one": {"batch_size": 1},
    "in pieces": {"prefill_chunk": 2},
}


@pytest.fixture(scope="module")
def both():
    return gf.load("shakespeare"), gf.load("shakespeare", device="cuda")


def texts(results):
    return [[one.tokens for one in (result, *result.alternatives)] for result in results]


@pytest.mark.parametrize("knobs", KNOBS.values(), ids=KNOBS)
@pytest.mark.parametrize("graph", [True, False])
def test_the_same_tokens_as_on_the_cpu(both, knobs, graph):
    cpu, gpu = both
    expected = texts(cpu.generate(PROMPTS, max_new_tokens=40, **knobs))
    assert texts(gpu.generate(PROMPTS, max_new_tokens=40, graph=graph, **knobs)) == expected
    assert texts(gpu.generate(PROMPTS, max_new_tokens=40, graph=graph, **knobs)) == expected


def test_streamed_the_same(both):
    cpu, gpu = both
    for knobs in ({}, {"stop_strings": ["\n"]}):
        pieces = list(gpu.stream(PROMPTS[1], max_new_tokens=40, **knobs))
        whole = cpu.generate(PROMPTS[1], max_new_tokens=40, **knobs)
        assert "".join(piece.text for piece in pieces) == whole.text
        assert [piece.token for piece in pieces] == whole.tokens


def test_compiled_the_same(both):
    cpu, gpu = both
    for knobs in ({}, {"num_beams": 3}):
        expected = texts(cpu.generate(PROMPTS, max_new_tokens=20, **knobs))
        assert texts(gpu.generate(PROMPTS, max_new_tokens=20, compile=True, **knobs)) == expected


@pytest.mark.parametrize("name", FIRST.values(), ids=FIRST)
def test_every_family_that_writes(name, tmp_path):
    case = Case(name, tmp_path)
    prompts = case.prompts((4, 9, 6, 2, 7), seed=5)
    knobs = [{}, {"num_beams": 3}, {"repetition_penalty": 1.5}]
    expected = [texts(case.model.generate(prompts, max_new_tokens=12, **k)) for k in knobs]
    gpu = gf.load(case.folder, device="cuda")
    for k, wanted in zip(knobs, expected, strict=True):
        assert texts(gpu.generate(prompts, max_new_tokens=12, **k)) == wanted


def test_what_was_read_is_not_read_again(monkeypatch):
    """A conversation, and prompts that begin alike: the same tokens as without."""
    monkeypatch.setattr(prefix, "LEAST_ON_GPU", 8)
    model = gf.load("shakespeare", device="cuda")
    text = model.tokenizer.encode("ROMEO:\nBut soft, what light through yonder window breaks?").ids
    without = {"prefix_cache_bytes": 0, "max_new_tokens": 12}
    for _ in range(3):
        said = model.generate(text, max_new_tokens=12).tokens
        assert model._shelf.texts and said == model.generate(text, **without).tokens
        model.generate(text, max_new_tokens=12)
        text = text + said + [5, 6]
    prompts = [[*text, i] for i in range(6)] + [text[:9]]
    found = [one.tokens for one in model.generate(prompts, max_new_tokens=12)]
    assert found == [one.tokens for one in model.generate(prompts, **without)]
