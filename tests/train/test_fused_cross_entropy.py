"""The chunked cross-entropy, compared with `F.cross_entropy`, including gradients."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer import GlassformerError, spec
from glassformer.train import fused_cross_entropy
from glassformer.train.fused_cross_entropy import cross_entropy, token_loss

GPU = pytest.param("cuda", marks=pytest.mark.gpu)
WORDS, WIDTH, ROWS = 331, 24, 300


def given(dtype=torch.float32, device="cpu", bias=True, ignored=True):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, WIDTH, generator=generator, dtype=dtype).to(device)
    weight = torch.randn(WORDS, WIDTH, generator=generator, dtype=dtype).to(device)
    offset = torch.randn(WORDS, generator=generator, dtype=dtype).to(device) if bias else None
    targets = torch.randint(WORDS, (ROWS,), generator=generator)
    if ignored:
        targets[::7] = fused_cross_entropy.IGNORE
    leaves = [None if t is None else t.requires_grad_() for t in (x, weight, offset)]
    return *leaves, targets.to(device)


def whole(x, weight, bias, targets, smoothing=0.0, softcap=None):
    logits = F.linear(x, weight, bias)
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


def gradients(loss, leaves):
    return torch.autograd.grad(0.3 * loss, [leaf for leaf in leaves if leaf is not None])


@pytest.fixture(params=[128, 10**6], ids=["chunks", "one chunk"])
def rows_at_once(request, monkeypatch):
    budget = dict.fromkeys(fused_cross_entropy.BYTES, request.param * WORDS * 4)
    monkeypatch.setattr(fused_cross_entropy, "BYTES", budget)


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("softcap", [None, 5.0])
def test_equals_the_whole(rows_at_once, device, bias, smoothing, softcap):
    for dtype, close in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        *leaves, targets = given(dtype, device, bias)
        ours = cross_entropy(*leaves, targets, smoothing, softcap)
        theirs = whole(*leaves, targets, smoothing, softcap)
        assert torch.allclose(ours, theirs, rtol=close / 10)
        for mine, other in zip(gradients(ours, leaves), gradients(theirs, leaves), strict=True):
            assert mine.dtype == dtype and torch.allclose(mine, other, rtol=close, atol=close)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_under_autocast_only_products_are_coarse(rows_at_once, device):
    *leaves, targets = given(device=device)
    exact = cross_entropy(*leaves, targets)
    with torch.autocast(device, torch.bfloat16):
        ours, theirs = cross_entropy(*leaves, targets), whole(*leaves, targets)
    assert ours.dtype == torch.float32
    assert abs(ours - exact) <= 2 * abs(theirs - exact) + 1e-3 * exact
    pairs = (gradients(ours, leaves), gradients(exact, leaves), gradients(theirs, leaves))
    for mine, right, other in zip(*pairs, strict=True):
        assert mine.dtype == torch.float32
        assert (mine - right).norm() <= 1.5 * (other - right).norm() + 1e-3 * right.norm()


def test_the_full_logits_are_never_there(monkeypatch):
    """300 rows at most 128 at a time are three times 100."""
    monkeypatch.setattr(fused_cross_entropy, "BYTES", {"cpu": 128 * WORDS * 4})
    *leaves, targets = given()
    largest = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.shape[-1:] == (WORDS,):
                largest.append(out[..., 0].numel())
            return out

    with Watch():
        fused_cross_entropy._row_losses(
            *[leaf.detach() for leaf in leaves], targets, 0.1, 0.0, [True] * 3
        )
    assert max(largest) == 100


@pytest.mark.gpu
def test_memory_on_a_gpu():
    """The logits of 32,768 rows over 50,257 words would take 3.3 GB in bfloat16."""
    x = torch.randn(32768, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(50257, 64, device="cuda", requires_grad=True)
    targets = torch.randint(50257, (32768,), device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with torch.autocast("cuda", torch.bfloat16):
        loss = cross_entropy(x, weight, None, targets)
    loss.backward()
    assert torch.cuda.max_memory_allocated() - before < 1.3 * fused_cross_entropy.BYTES["gpu"]


def test_what_learns_nothing_gets_no_gradient(rows_at_once):
    x, weight, bias, targets = given()
    weight.requires_grad_(False)
    (expected,) = torch.autograd.grad(whole(x, weight, bias, targets), [x])
    (found,) = torch.autograd.grad(cross_entropy(x, weight, bias, targets), [x])
    assert torch.allclose(found, expected, atol=1e-5)
    with torch.no_grad():
        assert not cross_entropy(x, weight, bias, targets).requires_grad


def test_one_graph_when_compiled(rows_at_once):
    *leaves, targets = given()

    def loss(x, weight, bias, targets):
        return cross_entropy(x * 2, weight, bias, targets, 0.1)

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    ours, theirs = compiled(*leaves, targets), loss(*leaves, targets)
    assert torch.allclose(ours, theirs)
    pairs = zip(gradients(ours, leaves), gradients(theirs, leaves), strict=True)
    assert all(torch.allclose(mine, other, atol=1e-6) for mine, other in pairs)


TRANSFORM = spec.TransformSpec(width=16, activation="gelu", norm=spec.NormSpec())
HEADS = {
    "plain": {},
    "bias": {"bias": "learned"},
    "fixed bias": {"bias": "fixed"},
    "transform": {"transform": TRANSFORM, "bias": "learned"},
    "scaled and capped": {"scale": 0.5, "softcap": 3.0},
    "mixed": {"num_weighted_layers": 3},
    "adaptive": {"adaptive": spec.AdaptiveSpec(cutoffs=(10, 30), width=32, div_value=2)},
    "one cluster": {"adaptive": spec.AdaptiveSpec(cutoffs=(), width=32, div_value=1)},
    "activation": {"activation": "tanh"},
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("make", [tiny.decoder, tiny.encoder])
def test_every_kind_of_head(name, make, monkeypatch):
    """Through the model, up to the head's hidden state, equals the model's own logits."""
    monkeypatch.setattr(fused_cross_entropy, "BYTES", {"cpu": 50 * 4})
    head = replace(tiny.LM, **HEADS[name])
    model = tiny.transformer(replace(make(), heads=(head, replace(tiny.LM, name="other")))).double()
    inputs = {
        "input_ids": tiny.tokens(2, 9),
        "attention_mask": torch.arange(9) < torch.tensor([[9], [6]]),
    }
    targets = tiny.tokens(2, 9, seed=1).masked_fill(
        ~inputs["attention_mask"], fused_cross_entropy.IGNORE
    )
    logits = model(**inputs).head_outputs["lm"]
    expected = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), reduction="sum", label_smoothing=0.1
    )
    found = token_loss(model, inputs, targets, 0.1)
    assert torch.allclose(found, expected)
    weights = {key: p for key, p in model.named_parameters() if "heads.other" not in key}
    pairs = zip(
        torch.autograd.grad(found, weights.values()),
        torch.autograd.grad(expected, weights.values()),
        strict=True,
    )
    for key, (mine, other) in zip(weights, pairs, strict=True):
        assert torch.allclose(mine, other, atol=1e-9), key


def test_an_adapter_beside_the_output_layer_is_heard(monkeypatch):
    """Hooks are how adapters are put on; the loss goes through the layer as it is."""
    monkeypatch.setattr(fused_cross_entropy, "BYTES", {"cpu": 50 * 4})
    model, inputs = tiny.transformer(tiny.decoder()).double(), {"input_ids": tiny.tokens(2, 9)}
    low = torch.randn(50, 32, dtype=torch.float64, requires_grad=True)
    model.heads["lm"].out.register_forward_hook(lambda module, args, out: out + args[0] @ low.T)
    targets = tiny.tokens(2, 9, seed=1)
    expected = F.cross_entropy(model(**inputs).logits.mT, targets, reduction="sum")
    found = token_loss(model, inputs, targets)
    assert torch.allclose(found, expected)
    pairs = [torch.autograd.grad(loss, [low])[0] for loss in (found, expected)]
    assert torch.allclose(*pairs)


def test_some_slots_alone():
    model = tiny.transformer(tiny.encoder()).double()
    inputs, at = {"input_ids": tiny.tokens(3, 7)}, torch.tensor([1, 8, 20])
    targets = torch.tensor([4, 5, fused_cross_entropy.IGNORE])
    everywhere = torch.full((21,), fused_cross_entropy.IGNORE).index_put((at,), targets)
    some = token_loss(model, inputs, targets, at=at)
    assert torch.allclose(some, token_loss(model, inputs, everywhere.view(3, 7)))


def test_a_head_that_is_not_there():
    with pytest.raises(GlassformerError, match="no head 'span'"):
        fused_cross_entropy.head_of(tiny.transformer(tiny.decoder()), "span")


def test_the_net_leaves_out_heads_that_were_not_asked_for():
    heads = (tiny.LM, replace(tiny.LM, name="inner", depth=0), replace(tiny.LM, name="other"))
    model = tiny.transformer(replace(tiny.decoder(), heads=heads))
    tokens = tiny.tokens(2, 5)
    full = model(tokens, auxiliary_heads=True)
    some = model(tokens, heads=("inner", "other"))
    assert list(some.head_outputs) == ["inner", "other"]
    assert all(
        torch.equal(some.head_outputs[name], full.head_outputs[name]) for name in some.head_outputs
    )
    assert torch.equal(some.logits, full.head_outputs["inner"])
    none = model(tokens, heads=())
    assert none.logits is None and torch.equal(none.last_hidden_state, full.last_hidden_state)
