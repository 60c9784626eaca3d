"""Beams that are played in bursts, here without a recording, find what the search finds."""

from __future__ import annotations

import pytest
import torch
from cases import Case
from writers import FIRST

from glassformer.generate import beam_burst, slots
from glassformer.generate.beam_burst import BeamRunner, bursts_fit, run_beams
from glassformer.generate.branches import branches_fit
from glassformer.generate.processors import make_processors
from glassformer.generate.search import top

OPTIONS = {
    "plain": {"num_beams": 4, "num_return_sequences": 3},
    "shorter": {"num_beams": 3, "length_penalty": -1.0},
    "longer": {"num_beams": 3, "length_penalty": 2.0, "early_stopping": "never"},
    "early": {"num_beams": 4, "early_stopping": True, "num_return_sequences": 4},
    "groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.7},
    "at least": {"num_beams": 3, "min_new_tokens": 7},
    "refilled": {"num_beams": 3, "batch_size": 6},
    "nothing twice": {"num_beams": 3, "no_repeat_ngram_size": 2, "batch_size": 6},
    "rarely twice": {"num_beams": 3, "repetition_penalty": 1.5},
    "used up": {"num_beams": 3, "presence_penalty": 0.4, "frequency_penalty": 0.3},
}


TYPES = ("marian", "m2m_100", "t5", "gpt2", "llama", "mistral", "opt")  # tables, turns, biases


@pytest.fixture(scope="module", params=TYPES)
def model(request, tmp_path_factory):
    return Case(FIRST[request.param], tmp_path_factory.mktemp("reference"))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_same_texts(model, options):
    case = model
    assert branches_fit(case.model)
    generator, prompts = case.model.generator, case.prompts((4, 9, 6, 2, 7), seed=5)
    given = {"max_new_tokens": 11, "batch_size": 20, **options}
    expected = case.model.generate(prompts, **given)
    made = generator.resolve_config(given)
    assert bursts_fit(made)
    rows = made.batch_size // made.num_beams
    runner = BeamRunner(case.model, made, make_processors(made), rows=rows)
    for _ in range(2):  # the second time in storage that is there already
        found = {n: [] for n in range(len(prompts))}
        for news in run_beams(runner, generator.requests(prompts, made)):
            for one in news.finished:
                found[one.request].append(one)
        for whole, parts in zip(expected, found.values(), strict=True):
            texts = [one.tokens for one in (whole, *whole.alternatives)]
            assert [part.tokens for part in parts] == texts
            assert parts[0].logprobs == pytest.approx(whole.logprobs, abs=1e-4)
            assert parts[0].score == pytest.approx(whole.score, abs=1e-4)
            assert parts[0].stop == whole.finish_reason


def test_sources_of_other_lengths_are_read_in_the_same_place(model, monkeypatch):
    """The longest first, as texts to write of are sorted; much shorter ones get their own."""
    monkeypatch.setattr(slots, "SOURCE", 4)
    monkeypatch.setattr(beam_burst, "PAGE", 4)
    options = {"num_beams": 3, "max_new_tokens": 6, "batch_size": 6}
    prompts = model.prompts((12, 11, 9, 8, 8, 4, 3, 2), seed=5)
    expected = [one.tokens for one in model.model.generate(prompts, **options)]
    made, generator = model.model.generator.resolve_config(options), model.model.generator
    runner = BeamRunner(model.model, made, make_processors(made), rows=2)
    places, found = [], {}
    for news in run_beams(runner, generator.requests(prompts, made)):
        places.append(id(runner.slots))
        found |= {one.request: one.tokens for one in news.finished}
    assert [found[n] for n in range(len(prompts))] == expected
    assert len({*places}) == 1
    if model.model.encoder is not None:
        monkeypatch.setattr(slots, "LONGER", 1)
        (one,) = run_beams(runner, generator.requests(prompts[-1:], made))
        assert one.finished[0].tokens == expected[-1] and id(runner.slots) != places[0]


def test_words_that_are_forbidden(model):
    """One alone, and one behind another that is written: of the prompt, and of the new text."""
    prompts, options = model.prompts((4, 9, 6), seed=5), {"num_beams": 3, "max_new_tokens": 8}
    free = model.model.generate(prompts, **options)
    first, second, third, *_ = free[1].tokens
    bad = [(first,), (free[0].tokens[0], free[0].tokens[1]), (second, third)]
    expected = [one.tokens for one in model.model.generate(prompts, bad_words_ids=bad, **options)]
    made = model.model.generator.resolve_config({**options, "bad_words_ids": bad})
    runner = BeamRunner(model.model, made, make_processors(made), rows=3)
    news = run_beams(runner, model.model.generator.requests(prompts, made))
    found = {one.request: one.tokens for each in news for one in each.finished}
    assert [found[n] for n in range(3)] == expected != [one.tokens for one in free]


@pytest.mark.parametrize("size", [50, 5000, 5119, 5120])
def test_the_highest_of_many_tokens(size):
    scores = torch.rand(7, size, generator=torch.Generator().manual_seed(size))
    scores[:, size // 3 :] = float("-inf") if size == 5000 else scores[:, size // 3 :]
    values, tokens = top(scores, 6)
    expected = scores.topk(6)
    assert torch.equal(values, expected.values)
    assert torch.equal(tokens, expected.indices)
