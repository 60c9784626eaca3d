"""Functions of the user change the scores in every strategy, and see no padding."""

from __future__ import annotations

import pytest
import torch

import glassformer as gf
from glassformer.errors import ConfigError
from glassformer.generate.batch import BatchJob

SMALL = {
    "n_embd": 64,
    "n_head": 4,
    "n_layer": 2,
    "vocab_size": 101,
    "n_positions": 128,
    "eos_token_id": 100,
}
PROMPTS = [[1, 2, 3], [4], list(range(50)), [9, 8, 7, 6, 9, 8, 7]]
STRATEGIES = {
    "greedy": {},
    "through the modules": {"enforce_eager": True},
    "sampled": {"temperature": 0.7, "seed": 3, "num_return_sequences": 2},
    "beam": {"num_beams": 3, "num_return_sequences": 2},
    "sampled beams": {"num_beams": 3, "do_sample": True},
    "groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0},
    "phrases": {"num_beams": 3, "force_words_ids": [[17]]},
    "contrastive": {"penalty_alpha": 0.6, "top_k": 4},
    "guessed": {"prompt_lookup_num_tokens": 3},
    "refilled": {"batch_size": 2},
}


def weakened(token_ids, scores):
    """What repetition_penalty=1.7 does."""
    assert token_ids.min() >= 0 and len(token_ids) == len(scores)
    said = torch.zeros_like(scores).scatter_(1, token_ids, 1.0).bool()
    return torch.where(said, torch.where(scores < 0, scores * 1.7, scores / 1.7), scores)


def texts(found):
    return [[one.tokens for one in (result, *result.alternatives)] for result in found]


@pytest.fixture(scope="module")
def model():
    return gf.create("gpt2", seed=3, **SMALL)


@pytest.mark.parametrize("options", STRATEGIES.values(), ids=STRATEGIES)
def test_every_strategy_applies_it(model, options):
    options = {"max_new_tokens": 12, **options}
    mine = texts(model.generate(PROMPTS, logits_processor=[weakened], **options))
    assert mine == texts(model.generate(PROMPTS, repetition_penalty=1.7, **options))
    assert mine != texts(model.generate(PROMPTS, **options))


def test_an_encoder_decoder():
    small = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    model = gf.create("t5-small", seed=1, vocab_size=60, **small)
    options = {"max_new_tokens": 8}
    mine = model.generate([5, 6, 7], logits_processor=weakened, **options).tokens
    assert mine == model.generate([5, 6, 7], repetition_penalty=1.7, **options).tokens


def test_scores_may_be_changed_in_place(model):
    def only_seven(token_ids, scores):
        scores -= 1000.0
        scores[:, 7] += 1000.0
        return scores

    for options in ({}, {"num_beams": 2}):
        found = model.generate([1, 2], logits_processor=only_seven, max_new_tokens=4, **options)
        assert found.tokens == [7] * 4
        assert all(-50 < value < 0 for value in found.logprobs)  # of the model itself


def test_functions_are_applied_in_their_order_and_before_constraints(model):
    order = []

    def first(token_ids, scores):
        order.append("first")
        return scores

    def second(token_ids, scores):
        order.append("second")
        return torch.zeros_like(scores)

    pieces = list(model.stream([1], logits_processor=[first, second], max_new_tokens=2))
    assert order == ["first", "second"] * 2 and [piece.token for piece in pieces] == [0, 0]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda token_ids, scores: None, "must return scores of .row, token., here .1, 101., not"),
        (lambda token_ids, scores: scores[:, :5], "not a tensor of .1, 5."),
        (lambda token_ids, scores: scores * float("nan"), "not a number"),
        (lambda token_ids, scores: scores - float("inf"), "logits_processor; loosen"),
        ("penalty", "logits_processor must be a function of tokens and scores, or a list"),
        ([3], "logits_processor must be a function of tokens and scores, or a list"),
    ],
)
def test_errors_name_the_option(model, function, said):
    with pytest.raises(ConfigError, match=said):
        model.generate([1], logits_processor=function, max_new_tokens=2)


def test_a_line_of_json_cannot_name_a_function(model, tmp_path):
    (tmp_path / "in").write_text('{"prompt": [1], "logits_processor": "f"}')
    job = BatchJob(tmp_path / "in", tmp_path / "out", {}, "")
    with pytest.raises(gf.GlassformerError, match="line 1: logits_processor must be a function"):
        job.plan(model.generator)


def test_a_temperature_alone_means_sampling(model):
    sampled = model.generate([1], temperature=0.7, seed=5, max_new_tokens=20).tokens
    options = {"do_sample": True, "temperature": 0.7, "seed": 5, "max_new_tokens": 20}
    assert sampled == model.generate([1], **options).tokens
    assert sampled != model.generate([1], max_new_tokens=20).tokens
