"""A prefix language model writes on from a prompt whose tokens see all of it."""

from __future__ import annotations

import pytest
import torch

import glassformer as gf
from glassformer.errors import GlassformerError

SIZES = {"n_layer": 2, "n_embd": 16, "n_head": 2, "vocab_size": 40, "eos_token_id": None}
PROMPTS = [[5, 9, 2, 30, 7], [11, 3], [21, 8, 4]]


@pytest.fixture(scope="module")
def model():
    made = gf.create("gpt2", seed=3, **SIZES)
    for parameter in made.parameters():
        parameter.data.mul_(4)
    return made


def written(model, prompt: list[int], count: int) -> tuple[list[int], list[float]]:
    """Tokens and their log-probabilities, without a cache."""
    ids, logprobs = list(prompt), []
    with torch.no_grad():
        for _ in range(count):
            seen = torch.tensor([len(prompt)])
            scores = model(torch.tensor([ids]), prefix_length=seen).logits[0, -1].log_softmax(-1)
            ids.append(int(scores.argmax()))
            logprobs.append(float(scores.max()))
    return ids[len(prompt) :], logprobs


def test_the_cache_and_the_batch_change_nothing(model):
    wanted = [written(model, prompt, 6) for prompt in PROMPTS]
    plain = model.generate(PROMPTS, max_new_tokens=6)
    for one, (_, logprobs) in zip(plain, wanted, strict=True):
        assert one.logprobs != pytest.approx(logprobs, abs=1e-4)
    for size in (1, 2, 3):
        found = model.generate(
            PROMPTS, bidirectional_prefix=True, max_new_tokens=6, batch_size=size
        )
        for one, (tokens, logprobs) in zip(found, wanted, strict=True):
            assert one.tokens == tokens and one.logprobs == pytest.approx(logprobs, abs=1e-5)
    options = {"bidirectional_prefix": True, "num_beams": 3, "max_new_tokens": 6}
    for one, prompt in zip(model.generate(PROMPTS, **options), PROMPTS, strict=True):
        alone = model.generate(prompt, **options)
        assert one.tokens == alone.tokens and one.score == pytest.approx(alone.score, abs=1e-5)


def test_what_does_not_go_with_it(model):
    lookup, contrast = {"prompt_lookup_num_tokens": 2}, {"penalty_alpha": 0.5, "top_k": 3}
    for options in (lookup, contrast, {"prefill_chunk": 2}):
        with pytest.raises(GlassformerError, match="bidirectional_prefix"):
            model.generate(PROMPTS[0], bidirectional_prefix=True, **options)
