"""A quantized model gives a prompt the same numbers, to the bit, whatever else is in the batch."""

from __future__ import annotations

import pytest
import torch
from cases import Case
from quick import quick
from writers import FIRST

import glassformer as gf
from glassformer.generate import prefix
from glassformer.generate.backends.cpp.build import library
from glassformer.generate.backends.support import compiled
from glassformer.generate.program import StepProgram

COMPILED = [kind for kind, name in FIRST.items() if isinstance(compiled(name.spec), StepProgram)]
OPTIONS = {
    "greedy": {},
    "refilled": {"batch_size": 3},
    "more rows than a step has": {"batch_size": 64},
    "sampled": {"temperature": 0.9, "seed": 3, "num_return_sequences": 2},
    "beam": {"num_beams": 3, "num_return_sequences": 2},
}

pytestmark = pytest.mark.skipif(library() is None, reason="there is no compiler here")


def drawn(vocabulary, count=20):
    """Prompts of 1 to 90 tokens, some of which begin alike."""
    random = torch.Generator().manual_seed(0)

    def some(number):
        return torch.randint(vocabulary, (number,), generator=random).tolist()

    head = some(40)
    lengths = torch.randint(1, 50, (count,), generator=random).tolist()
    return [(head if i % 3 == 0 else some(i % 41)) + some(n) for i, n in enumerate(lengths)]


def numbers(found):
    return [(one.tokens, one.logprobs) for one in (found, *found.alternatives)]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_alone_as_in_a_batch(kind, options):
    size = {"n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 101, "n_positions": 128}
    model = gf.create("gpt2", seed=3, **size, eos_token_id=100).quantize(kind)
    options, prompts = {"max_new_tokens": 12, **options}, drawn(99)
    uncached = {**options, "prefix_cache_bytes": 0}
    alone = [numbers(model.generate(prompt, **uncached)) for prompt in prompts]
    assert [numbers(one) for one in model.generate(prompts, **options)] == alone
    assert [numbers(one) for one in model.generate(prompts[::-1], **options)] == alone[::-1]


@pytest.mark.parametrize("kind", quick(COMPILED, "llama", "t5", "bart"))
def test_every_family_with_a_program(kind, tmp_path):
    case = Case(FIRST[kind], tmp_path)
    model, prompts = case.model.quantize("int8"), case.prompts((4, 20, 1, 9, 30, 9), 5)
    for options in ({"num_beams": 1}, {"num_beams": 3}):
        options["max_new_tokens"] = 6
        alone = [numbers(model.generate(prompt, **options)) for prompt in prompts]
        assert [numbers(one) for one in model.generate(prompts, **options)] == alone


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_what_is_cached_changes_no_number(kind, monkeypatch):
    """Neither a prompt that was read before nor a text that goes on."""
    monkeypatch.setattr(prefix, "READS", 1)  # also by short calls
    size = {"n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 101, "n_positions": 256}
    model = gf.create("gpt2", seed=3, **size, eos_token_id=100).quantize(kind)
    text = drawn(99)[3]
    for _ in range(3):
        wanted = numbers(model.generate(text, max_new_tokens=50, prefix_cache_bytes=0))
        for _ in range(2):
            assert numbers(model.generate(text, max_new_tokens=50)) == wanted
        assert model._prefix_cache.texts
        text = [*text, *wanted[0][0], 5, 6]
