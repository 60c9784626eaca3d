"""Strategies that transformers has dropped, against what they are defined to be."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

import glassformer as gf
from glassformer.errors import GlassformerError


@pytest.fixture(scope="module")
def bard():
    return gf.load("shakespeare")


@torch.no_grad()
def test_contrastive_search_is_its_formula(bard):
    prompt, alpha, k = bard.tokenizer.encode("The king").ids, 0.6, 4
    text = list(prompt)
    for _ in range(12):
        share, tokens = bard(torch.tensor([text])).logits[0, -1].softmax(-1).topk(k)
        values = []
        for p, token in zip(share, tokens, strict=True):
            hidden = bard(torch.tensor([[*text, int(token)]])).last_hidden_state[0]
            likeness = F.cosine_similarity(hidden[-1:], hidden[:-1]).max()
            values.append((1 - alpha) * p - alpha * likeness)
        text.append(int(tokens[int(torch.stack(values).argmax())]))
    found = bard.generate("The king", penalty_alpha=alpha, top_k=k, max_new_tokens=12)
    assert found.tokens == text[len(prompt) :]


def test_guessing_changes_nothing_when_sampling_either(bard):
    options = {"do_sample": True, "seed": 5, "top_p": 0.9, "max_new_tokens": 40}
    plain = bard.generate("ROMEO:\n", **options)
    for extra in ({"prompt_lookup_num_tokens": 4}, {"assistant_model": bard}):
        assert bard.generate("ROMEO:\n", **options, **extra).tokens == plain.tokens


def test_a_draft_saves_passes(bard):
    """A draft that is the model itself is always right: few passes for many tokens."""
    passes = []
    hook = bard.register_forward_hook(lambda *_: passes.append(1))
    draft = gf.load("shakespeare")
    bard.generate("ROMEO:\n", max_new_tokens=24, assistant_model=draft, num_assistant_tokens=5)
    hook.remove()
    assert len(passes) <= 6


def test_groups_of_beams_differ(bard):
    prompt = "ROMEO:\n"
    options = {"num_beams": 6, "num_return_sequences": 6, "max_new_tokens": 10}
    plain, diverse = (
        bard.generate(prompt, **options, **more)
        for more in ({}, {"num_beam_groups": 3, "diversity_penalty": 5.0})
    )

    def firsts(result):
        return {one.tokens[0] for one in (result, *result.alternatives)}

    assert len(firsts(diverse)) >= 3 > len(firsts(plain)) or len(firsts(diverse)) > len(
        firsts(plain)
    )


def test_groups_without_a_penalty_each_find_what_a_beam_search_finds(bard):
    alone = bard.generate("ROMEO:\n", num_beams=2, num_return_sequences=2, max_new_tokens=10)
    grouped = bard.generate(
        "ROMEO:\n", num_beams=4, num_beam_groups=2, num_return_sequences=4, max_new_tokens=10
    )
    both = [alone.tokens, alone.alternatives[0].tokens]
    found = [grouped.tokens, *(one.tokens for one in grouped.alternatives)]
    assert sorted(found) == sorted(both * 2)


@pytest.mark.parametrize("words", [[" crown"], [" crown", " daughter"]])
def test_phrases_are_in_every_text(bard, words):
    ids = [bard.tokenizer.encode(word).ids for word in words]
    result = bard.generate(
        "KING:\n", num_beams=5, num_return_sequences=3, force_words_ids=ids, max_new_tokens=30
    )
    for one in (result, *result.alternatives):
        assert all(word in one.text for word in words)


def test_one_of_several_phrases(bard):
    ways = [bard.tokenizer.encode(word).ids for word in (" castle", " crown")]
    text = bard.generate("KING:\n", num_beams=4, force_words_ids=[ways], max_new_tokens=30).text
    assert "castle" in text or "crown" in text


def test_phrases_that_do_not_fit(bard):
    ids = [bard.tokenizer.encode(" my sovereign liege").ids]
    with pytest.raises(GlassformerError, match="raise max_new_tokens"):
        bard.generate("KING:\n", num_beams=4, force_words_ids=ids, max_new_tokens=1)


@pytest.mark.parametrize("pattern", [r"[A-Z]+: [a-z ]{5,12}\.", r"(yes|no), (sir|madam)!"])
def test_a_regular_expression_is_matched_as_a_whole(bard, pattern):
    for options in ({}, {"do_sample": True, "seed": 2}, {"num_beams": 3}):
        result = bard.generate("The king says", regex=pattern, max_new_tokens=40, **options)
        assert re.fullmatch(pattern, result.text), result.text
        assert result.finish_reason == "eos"


def test_a_tree_shows_what_was_kept_and_pruned(bard):
    result = bard.generate("ROMEO:\n", num_beams=3, max_new_tokens=5, tree=True)
    assert len(result.tree) == 5
    for step in result.tree[:-1]:
        assert len(step.kept) == 3
        assert min(c.score for c in step.kept) >= max(c.score for c in step.pruned)
    path, beam = [], None
    for step in reversed(result.tree):  # the best text can be followed back to its first token
        pool = step.finished if beam is None else step.kept
        candidate = pool[0] if beam is None else pool[beam]
        path.append(candidate.token)
        beam = candidate.beam
    assert path[::-1] == result.tokens


def test_logprobs_are_the_models_own(bard):
    for options in ({}, {"num_beams": 3}, {"do_sample": True, "temperature": 2.0}):
        result = bard.generate("ROMEO:\n", max_new_tokens=8, **options)
        prompt = bard.tokenizer.encode("ROMEO:\n").ids
        score = bard.score([*prompt, *result.tokens])
        assert result.logprobs == pytest.approx(score.logprobs[-8:], abs=1e-4)


def test_penalties_count_the_new_text(bard):
    plain = bard.generate("ROMEO:\n", max_new_tokens=30)
    varied = bard.generate("ROMEO:\n", max_new_tokens=30, frequency_penalty=5.0)
    assert len(set(varied.tokens)) == 30 > len(set(plain.tokens))
