"""Hooks: no cost without a tap, and a returned tensor replaces the original."""

from __future__ import annotations

import pytest
import tiny
import torch

from glassformer import spec
from glassformer.core import ActivationCapture
from glassformer.core.pass_context import PassContext


def graphs(model, *inputs) -> list[str]:
    """What the compiler is given, as text."""
    texts: list[str] = []

    def keep(module, example_inputs):
        texts.append(module.code)
        return module.forward

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(model, backend=keep, fullgraph=True)(*inputs)
    return texts


def test_without_a_tap_the_graph_is_as_if_the_taps_were_not_there(monkeypatch):
    model = tiny.transformer(tiny.decoder(2, position=spec.RotarySpec(dim=8)))
    with_taps = graphs(model, tiny.tokens(2, 5))
    monkeypatch.setattr(PassContext, "hook_point", lambda self, tensor, value: value)
    monkeypatch.setattr(PassContext, "tap_wants", lambda self, *tensors: False)
    assert graphs(model, tiny.tokens(2, 5)) == with_taps


@pytest.mark.parametrize(
    "name", ["q", "v", "scores", "pattern", "z", "attn_out", "ffn_post", "resid_mid"]
)
@pytest.mark.parametrize("eager", [False, True])
def test_what_a_tap_returns_takes_the_place(name, eager):
    model = tiny.transformer(tiny.decoder(2))
    tokens = tiny.tokens(1, 5)

    def half(at, value):
        return value * 0.5 if at == f"decoder.blocks.1.{name}" else value

    with torch.no_grad():
        plain, changed = (
            model(tokens, attn_implementation="eager" if eager else None).logits,
            model(tokens, tap=half, attn_implementation="eager" if eager else None).logits,
        )
    assert not torch.allclose(plain, changed, atol=1e-4)


def test_switching_a_head_off_is_leaving_its_rows_out_of_the_projection():
    model = tiny.transformer(tiny.decoder(1))
    tokens = tiny.tokens(1, 5)

    def off(at, value):
        if at == "decoder.blocks.0.z":
            value = value.clone()
            value[:, 2] = 0
        return value

    with torch.no_grad():
        switched = model(tokens, tap=off).logits
        model.decoder.blocks[0].attention.out.weight[:, 16:24] = 0
        assert torch.allclose(model(tokens).logits, switched, atol=1e-6)


def test_a_pattern_that_is_not_asked_for_is_not_computed():
    model = tiny.transformer(tiny.decoder(2))
    seen = ActivationCapture("*.resid_post")
    calls = []
    attend = model.decoder.blocks[0].attention.attend
    attend.scores = lambda *a, **k: calls.append(1)
    with torch.no_grad():
        model(tiny.tokens(1, 5), tap=seen)
    assert not calls and set(seen.tensors) == {f"decoder.blocks.{i}.resid_post" for i in range(2)}
