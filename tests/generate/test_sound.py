"""Writing about sound: what the prompt may be."""

from __future__ import annotations

import pytest
import torch

import glassformer as gf
from glassformer.families import families


@pytest.fixture(scope="module")
def model():
    config = {**families()["whisper"].TINY[0], "begin_suppress_tokens": None}
    return gf.create("whisper-tiny", seed=1, **config)


def sound(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def test_one_sound_or_several(model):
    several = sound(3, 8, 48)
    results = model.generate(several, max_new_tokens=5)
    alone = [model.generate(one, max_new_tokens=5) for one in several]
    assert [r.tokens for r in results] == [r.tokens for r in alone]
    assert [p.token for p in model.stream(several[0], max_new_tokens=5)] == alone[0].tokens


def test_every_strategy_reads_sound(model):
    heard, knobs = sound(8, 48), {"max_new_tokens": 5}
    greedy = model.generate(heard, **knobs).tokens
    assert model.generate(heard, **knobs, prompt_lookup_num_tokens=2).tokens == greedy
    assert model.generate(heard, **knobs, assistant_model=model).tokens == greedy
    assert model.generate(heard, **knobs, penalty_alpha=1e-9, top_k=4).tokens == greedy


def test_sounds_of_different_lengths_one_after_the_other(model):
    long, short = sound(8, 48), sound(8, 30)
    with pytest.raises(gf.GlassformerError, match=r"let model\.reader pad them"):
        model.generate([long, short], max_new_tokens=5)
    results = model.generate([long, short], max_new_tokens=5, batch_size=1)
    assert results[1].tokens == model.generate(short, max_new_tokens=5).tokens


def test_a_text_is_scored_by_how_well_it_fits_the_sound(model):
    heard = sound(8, 48)
    target = model.generate(heard, max_new_tokens=6)
    found = model.score(heard, target.tokens)
    assert found.tokens == target.tokens
    assert found.logprobs == pytest.approx(target.logprobs, abs=1e-4)


def test_a_text_is_no_sound(model):
    with pytest.raises(gf.GlassformerError, match=r"give it a spectrogram, as model\.reader makes"):
        model.generate("hello")
    with pytest.raises(gf.GlassformerError, match="give it a spectrogram"):
        model.generate()
