"""One request, one result, however it is computed, for a model of every family.

`make test` takes 20 prompts, `make test-all` 200.
"""

from __future__ import annotations

import pytest
import torch

NEW = 6
FORCED = ("forced_bos_token_id", "forced_eos_token_id", "begin_suppress_tokens")  # by a config
PLAIN = {"num_beams": 1, **dict.fromkeys(FORCED)}


@pytest.fixture(scope="module")
def prompts(case, pytestconfig):
    count = 200 if pytestconfig.getoption("all") else 20
    generator = torch.Generator().manual_seed(9)
    lengths = torch.randint(1, 14, (count,), generator=generator).tolist()
    return case.prompts([n + 1 for n in lengths], seed=10)


@pytest.fixture(scope="module")
def together(case, prompts):
    return tokens(case, prompts, batch_size=64)


def tokens(case, prompts, **options):
    options = PLAIN | options
    return [one.tokens for one in case.model.generate(prompts, max_new_tokens=NEW, **options)]


@torch.no_grad()
def test_with_the_cache_as_without(case, prompts, together):
    """Written out: the whole text is read anew at every step."""
    eos, generator = case.spec.tokens.eos, case.model.generator
    for prompt, found in zip(prompts, together, strict=True):
        text = [generator.start(generator.resolve_config({}))] if case.both else list(prompt)
        source = torch.as_tensor(prompt)[None] if case.both else None
        new = []
        while len(new) < NEW and eos not in new:
            memory = None if source is None else case.model.encode(source)
            logits = case.model.decode(
                torch.tensor([text + new]), encoder_hidden_states=memory
            ).logits
            new.append(int(logits[0, -1].argmax()))
        assert found == new


def test_in_a_batch_as_alone(case, prompts, together):
    assert [tokens(case, [prompt])[0] for prompt in prompts] == together
    assert tokens(case, prompts, batch_size=7) == together


def test_chunked_prefill_as_whole(case, prompts, together):
    assert tokens(case, prompts, batch_size=64, prefill_chunk=3) == together


def test_streamed_as_not(case, prompts, together):
    for prompt, found in zip(prompts, together, strict=True):
        pieces = case.model.stream(prompt, max_new_tokens=NEW, **PLAIN)
        assert [piece.token for piece in pieces] == found


def test_guessed_as_plain(case, prompts, together):
    """The text so far as the source of guesses, and the model itself (always right) as a draft."""
    assert tokens(case, prompts, prompt_lookup_num_tokens=3) == together
    assert tokens(case, prompts, assistant_model=case.model, num_assistant_tokens=3) == together


def test_beams_in_a_batch_as_alone(case, prompts):
    part = prompts[:12]
    options = {"num_beams": 3, "num_return_sequences": 2}
    found = case.model.generate(part, max_new_tokens=NEW, batch_size=36, **options)
    for prompt, together in zip(part, found, strict=True):
        alone = case.model.generate(prompt, max_new_tokens=NEW, **options)
        assert together.tokens == alone.tokens
        assert [a.tokens for a in together.alternatives] == [a.tokens for a in alone.alternatives]


def test_a_seed_fixes_a_request_whatever_else_is_in_the_batch(case, prompts):
    options = {"do_sample": True, "seed": 7, "temperature": 1.5, "num_return_sequences": 2}
    found = case.model.generate(prompts[:20], max_new_tokens=NEW, batch_size=16, **options)
    for prompt, together in zip(prompts[:20], found, strict=True):
        alone = case.model.generate(prompt, max_new_tokens=NEW, **options)
        assert alone.tokens == together.tokens
        assert alone.alternatives[0].tokens == together.alternatives[0].tokens
