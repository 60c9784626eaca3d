"""The packed copy of a weight is used only while the weight is unchanged."""

import copy

import pytest
import tiny
import torch
from silent_changes import SILENT
from torch import nn

from glassformer import spec

POSITIONS = {
    "shared": spec.DisentangledSpec(span=4, norm=spec.NormSpec()),
    "separate": spec.DisentangledSpec(span=4, shared_projections=False),
    "none": None,
}
TOKENS = tiny.tokens(2, 9)


def hidden(transformer):
    with torch.no_grad():
        return transformer(TOKENS).last_hidden_state


def fresh(transformer):
    """The same weights in a model that was never packed."""
    other = tiny.transformer(transformer.spec).to(transformer.encoder.embed.token.weight.dtype)
    other.load_state_dict(transformer.state_dict())
    return other


def add(transformer):
    with torch.no_grad():
        for weight in transformer.parameters():
            weight.add_(torch.linspace(-0.1, 0.1, weight.numel()).view(weight.shape))


def replace(transformer):
    for module in transformer.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(weight.detach() * 1.1))


def round_off(transformer):
    transformer.half().float()


def take_over(transformer):
    transformer.load_state_dict(
        {name: weight * 0.9 for name, weight in transformer.state_dict().items()}
    )


@pytest.fixture(params=POSITIONS)
def transformer(request):
    return tiny.transformer(tiny.encoder(2, position=POSITIONS[request.param]))


def silently(change):
    return lambda transformer: change(list(transformer.parameters()))


@pytest.mark.parametrize(
    "change", [add, replace, round_off, take_over, *map(silently, SILENT.values())]
)
def test_changed_weights_are_noticed(transformer, change):
    before = hidden(transformer)
    transformer.pack()
    assert torch.allclose(hidden(transformer), before, atol=1e-5)
    change(transformer)
    after = hidden(transformer)
    assert not torch.equal(after, before)
    assert torch.equal(after, hidden(fresh(transformer)))


def test_a_copy_is_on_its_own(transformer):
    transformer.pack()
    other = copy.deepcopy(transformer)
    add(other)
    assert torch.equal(hidden(other), hidden(fresh(other)))


def test_gradients_flow_through_the_plain_weights(transformer):
    plain = fresh(transformer)
    transformer.pack()
    for model in (transformer, plain):
        model(TOKENS).last_hidden_state.square().sum().backward()
    for (name, packed), (_, other) in zip(
        transformer.named_parameters(), plain.named_parameters(), strict=True
    ):
        assert packed.grad is None or torch.equal(packed.grad, other.grad), name
    assert transformer.encoder.blocks[0].attention.qkv.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("transformer", ["shared", "separate"], indirect=True)
def test_the_table_is_projected_once(transformer, monkeypatch):
    """After packing no pass projects it, until a weight changes."""
    module, calls = transformer.encoder.positions[0], []
    project = module.project
    monkeypatch.setattr(module, "project", lambda *args: calls.append(1) or project(*args))
    transformer.pack()
    calls.clear()
    hidden(transformer)
    assert not calls
    with torch.no_grad():
        module.weight.add_(1.0)
    hidden(transformer)
    assert len(calls) == 4  # keys and queries of two layers
