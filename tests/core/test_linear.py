"""What `pack` keeps is used only as long as it is what the weights would give."""

import copy

import pytest
import tiny
import torch
from torch import nn

from glassformer import spec

POSITIONS = {
    "shared": spec.DisentangledSpec(span=4, norm=spec.NormSpec()),
    "separate": spec.DisentangledSpec(span=4, shared_projections=False),
    "none": None,
}
TOKENS = tiny.tokens(2, 9)


def hidden(net):
    with torch.no_grad():
        return net(TOKENS).last_hidden_state


def fresh(net):
    """The same weights in a net that was never packed."""
    other = tiny.net(net.spec).to(net.encoder.embed.token.weight.dtype)
    other.load_state_dict(net.state_dict())
    return other


def add(net):
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(torch.linspace(-0.1, 0.1, weight.numel()).view(weight.shape))


def replace(net):
    for module in net.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(weight.detach() * 1.1))


def round_off(net):
    net.half().float()


def take_over(net):
    net.load_state_dict({name: weight * 0.9 for name, weight in net.state_dict().items()})


@pytest.fixture(params=POSITIONS)
def net(request):
    return tiny.net(tiny.encoder(2, position=POSITIONS[request.param]))


@pytest.mark.parametrize("change", [add, replace, round_off, take_over])
def test_changed_weights_are_noticed(net, change):
    before = hidden(net)
    net.pack()
    assert torch.allclose(hidden(net), before, atol=1e-5)
    change(net)
    after = hidden(net)
    assert not torch.equal(after, before)
    assert torch.equal(after, hidden(fresh(net)))


def test_a_copy_is_on_its_own(net):
    net.pack()
    other = copy.deepcopy(net)
    add(other)
    assert torch.equal(hidden(other), hidden(fresh(other)))


def test_gradients_flow_through_the_plain_weights(net):
    plain = fresh(net)
    net.pack()
    for model in (net, plain):
        model(TOKENS).last_hidden_state.square().sum().backward()
    for (name, packed), (_, other) in zip(
        net.named_parameters(), plain.named_parameters(), strict=True
    ):
        assert packed.grad is None or torch.equal(packed.grad, other.grad), name
    assert net.encoder.blocks[0].attention.qkv.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("net", ["shared", "separate"], indirect=True)
def test_the_table_is_projected_once(net, monkeypatch):
    """After packing no pass projects it, until a weight changes."""
    module, calls = net.encoder.positions[0], []
    project = module.project
    monkeypatch.setattr(module, "project", lambda *args: calls.append(1) or project(*args))
    net.pack()
    calls.clear()
    hidden(net)
    assert not calls
    with torch.no_grad():
        module.weight.add_(1.0)
    hidden(net)
    assert len(calls) == 4  # keys and queries of two layers
