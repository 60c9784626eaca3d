"""Views and edits on a GPU equal those on a CPU, also in generation."""

from __future__ import annotations

import pytest
import small
import torch

from glassformer import inside

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
TEXT = "time flies like an arrow"


@pytest.mark.parametrize(
    "make", [small.decoder, small.encoder, small.both], ids=lambda m: m.__name__
)
def test_a_gpu_shows_what_a_cpu_shows(make):
    here, there = make().look(TEXT), on_gpu(make()).look(TEXT)
    for ask in (
        lambda v: v.attention[1].array,
        lambda v: v.rollout().array,
        lambda v: v.lens().probability.array,
        lambda v: v.contributions(7).heads.array,
        lambda v: v.integrated_gradients(7, steps=4).values.array,
    ):
        assert torch.allclose(ask(there).cpu(), ask(here), atol=1e-4)


def test_recorded_steps_are_left_for_the_time_of_an_edit():
    model, plain = on_gpu(small.decoder()), small.decoder()
    for options in ({}, {"num_beams": 3}, {"do_sample": True, "seed": 3}):
        before = model.generate(TEXT, max_new_tokens=8, **options).tokens
        edits = [
            inside.ablate_heads(1, [2]),
            inside.steer(0, torch.linspace(-2, 2, 32), positions=[6]),
        ]
        with model.edit(*edits), plain.edit(*edits):
            edited = model.generate(TEXT, max_new_tokens=8, **options)
            want = plain.generate(TEXT, max_new_tokens=8, **options)
        assert edited.tokens == want.tokens
        assert edited.logprobs == pytest.approx(want.logprobs, abs=1e-3)
        assert model.generate(TEXT, max_new_tokens=8, **options).tokens == before


def on_gpu(model):
    model.cuda()
    return model
