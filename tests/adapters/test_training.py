"""Only the adapter is trained; it affects every way of computing; and it can be removed."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from beside_peft import Pair, adapted, far, trained

import glassformer as gf
from glassformer.adapters import (
    AdaLoRA,
    BitFit,
    Bottleneck,
    LoRA,
    Prefix,
    Prompt,
    active,
    penalty,
)
from glassformer.errors import GlassformerError

ALL = [
    LoRA(rank=3),
    AdaLoRA(rank=4, target_rank=2, max_steps=10),
    Bottleneck(bottleneck_size=5),
    Prefix(num_virtual_tokens=4),
    Prefix(num_virtual_tokens=4, encoder_hidden_size=6),
    Prompt(num_virtual_tokens=4),
    BitFit(),
]


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return Pair("GPT2LMHeadModel", tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return Pair("LlamaForCausalLM", tmp_path_factory.mktemp("reference"))


def kind(settings):
    return type(settings).__name__


@pytest.mark.parametrize("settings", ALL, ids=kind)
def test_gradients_reach_the_adapter_and_nothing_else(gpt2, settings):
    model = gpt2.model()
    model.adapters.add(settings)
    adapter = active(model)
    own = {id(parameter) for parameter in adapter.parameters()}
    before = {n: p.clone() for n, p in model.named_parameters() if id(p) not in own}
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
    losses = []
    for _ in range(6):
        logits = gpt2.logits(model)
        loss = F.cross_entropy(logits[0, :-1], gpt2.tokens[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    for name, parameter in model.named_parameters():
        assert (parameter.grad is not None) == (id(parameter) in own), name
        if name in before:
            assert torch.equal(parameter, before[name]), name
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    "settings",
    [
        LoRA(rank=3, target_modules=("c_attn",)),
        Prefix(num_virtual_tokens=4),
        Prompt(num_virtual_tokens=4),
    ],
    ids=kind,
)
def test_compiled_as_eager(gpt2, settings):
    model = adapted(gpt2.model(), settings)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")
    with torch.no_grad():
        out = compiled(gpt2.tokens, gpt2.mask.bool()).logits
    assert far(gpt2.real(out), gpt2.ours(model)) < 1e-6


@pytest.mark.parametrize("settings", ALL, ids=kind)
def test_a_text_is_written_with_the_adapter(gpt2, settings):
    """With the cache, in a batch, padded: as reading all anew for every token."""
    model = adapted(gpt2.model(), settings)
    prompts = [[5, 6, 7, 8, 9], [11, 12]]
    written = model.generate(prompts, max_new_tokens=6, eos_token_id=None)
    for prompt, found in zip(prompts, written, strict=True):
        tokens = list(prompt)
        for _ in range(6):
            with torch.no_grad():
                tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
        assert list(found.tokens) == tokens[len(prompt) :]
    beams = model.generate(prompts, max_new_tokens=6, eos_token_id=None, num_beams=3)
    for prompt, found in zip(prompts, beams, strict=True):
        text = torch.tensor([[*prompt, *found.tokens]])
        with torch.no_grad():
            log = model(text).logits[0, :-1].log_softmax(-1)
        own = log.gather(1, text[0, 1:, None])[-6:, 0]
        assert far(own, torch.tensor(found.logprobs)) < 1e-4
    with pytest.raises(GlassformerError, match="positions"):  # of 40, some may be the adapter's
        model.generate([5] * (40 if active(model).wrapper is None else 36), max_new_tokens=2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("settings", ALL, ids=kind)
def test_recorded_steps_hear_it(gpt2, settings):
    """On a GPU, where steps are recorded and played back: as on the CPU, before and after."""
    model, other = gpt2.model(), gpt2.model(device="cuda")
    prompts = [[5, 6, 7, 8, 9], [11, 12]]
    options = {"max_new_tokens": 12, "eos_token_id": None}
    for each in (model, other):
        each.generate(prompts, **options)
        adapted(each, settings)
    expected = [list(found.tokens) for found in model.generate(prompts, **options)]
    assert [list(found.tokens) for found in other.generate(prompts, **options)] == expected


@pytest.mark.parametrize(
    "settings", [Prefix(num_virtual_tokens=4), Prompt(num_virtual_tokens=4)], ids=kind
)
def test_an_encoder_decoder_writes_with_it(tmp_path, settings):
    pair = Pair("T5ForConditionalGeneration", tmp_path)
    model = adapted(pair.model(), settings)
    sources = [[5, 6, 7, 8, 9], [11, 12]]
    for source, found in zip(
        sources, model.generate(sources, max_new_tokens=5, eos_token_id=None), strict=True
    ):
        tokens = [0]
        for _ in range(5):
            with torch.no_grad():
                out = model(
                    decoder_input_ids=torch.tensor([tokens]), input_ids=torch.tensor([source])
                )
            tokens.append(int(out.logits[0, -1].argmax()))
        assert list(found.tokens) == tokens[1:]


@pytest.mark.parametrize(
    "settings", [LoRA(rank=3), AdaLoRA(rank=4, target_rank=2, max_steps=9), BitFit()], ids=kind
)
def test_merged_as_beside_and_unmerged_to_the_bit(gpt2, settings):
    model = adapted(gpt2.model(), settings)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ours = gpt2.ours(model)
    model.adapters.merge()
    assert far(gpt2.ours(model), ours) < 1e-5
    assert not any(module._forward_hooks for module in model.modules())
    model.adapters.unmerge()
    assert all(torch.equal(before[n], t) for n, t in model.state_dict().items())
    model.adapters.merge(forget=True)
    assert far(gpt2.ours(model), ours) < 1e-5
    assert set(model.state_dict()) == set(gpt2.model().state_dict())


def test_the_merged_model_is_saved_whole_and_the_other_without(llama, tmp_path):
    model = adapted(llama.model(), LoRA(rank=3))
    ours = llama.ours(model)
    model.save(tmp_path / "base")
    assert far(llama.ours(gf.load(tmp_path / "base")), llama.ours(llama.model())) == 0
    model.adapters.merge(forget=True)
    model.save(tmp_path / "merged")
    assert far(llama.ours(gf.load(tmp_path / "merged")), ours) < 1e-5


def test_adapters_by_name(gpt2):
    model = gpt2.model()
    plain = gpt2.ours(model)
    results = {}
    for number, settings in enumerate(ALL):
        model.adapters.add(settings, f"number{number}", seed=number)
        with torch.no_grad():
            for parameter in active(model).parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
        results[f"number{number}"] = gpt2.ours(model)
    for name, result in reversed(results.items()):
        model.adapters.set_active(name)
        assert far(gpt2.ours(model), result) == 0
        assert far(result, plain) > 1e-3
        own = {id(p) for p in active(model).parameters()}
        assert {id(dict(model.named_parameters())[n]) for n in trained(model)} == own
    model.adapters.set_active(None)
    assert far(gpt2.ours(model), plain) == 0
    for name in results:
        model.adapters.remove(name)
    assert set(model.state_dict()) == set(gpt2.model().state_dict())
    assert all(p.requires_grad for p in model.parameters())


def test_the_same_seed_begins_alike(gpt2):
    def first(seed):
        model = gpt2.model().adapters.add(LoRA(rank=3), seed=seed)
        return torch.cat([p.flatten() for p in active(model).parameters()])

    assert torch.equal(first(1), first(1)) and not torch.equal(first(1), first(2))
    assert far(gpt2.ours(gpt2.model().adapters.add(LoRA(rank=3))), gpt2.ours(gpt2.model())) == 0


def test_a_copy_has_an_adapter_of_its_own(gpt2):
    model = adapted(gpt2.model(), LoRA(rank=3))
    ours = gpt2.ours(model)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in active(other).parameters():
            parameter.zero_()
        changed = gpt2.real(other(gpt2.tokens, gpt2.mask.bool()).logits)
    assert far(changed, gpt2.ours(gpt2.model())) == 0
    assert far(gpt2.ours(model), ours) == 0


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_ranks_learn_beside_codes(llama, kind):
    """The base is held in 8 or 4 bits; gradients pass through what the codes stand for."""
    model = adapted(llama.model(quantize=kind), LoRA(rank=3))
    dense = adapted(llama.model(), LoRA(rank=3))
    with torch.no_grad():
        for name, module in model.named_modules():
            if hasattr(module, "codes"):
                dense.get_submodule(name).weight.copy_(module.weight)
    for each in (model, dense):
        logits = llama.logits(each)
        F.cross_entropy(logits[0], llama.tokens[0]).backward()
    for ours, theirs in zip(active(model).parameters(), active(dense).parameters(), strict=True):
        assert ours.grad is not None and bool(ours.grad.any())
        assert far(ours.grad, theirs.grad) < 0.05 * float(theirs.grad.abs().max()) + 1e-4


def test_packed_weights_and_deberta_hear_it(tmp_path):
    """Its table of distances passes through the adapted projections, too."""
    pair = Pair("DebertaV2ForSequenceClassification", tmp_path)
    model = adapted(pair.model(), LoRA(rank=2))
    ours = pair.ours(model)
    model.pack()
    assert far(pair.ours(model), ours) < 1e-5
    with torch.no_grad():
        for parameter in active(model).parameters():
            parameter.mul_(0.5)
    changed = pair.ours(model)
    for module in model.modules():
        if hasattr(module, "_packed"):
            module._packed = {} if isinstance(module._packed, dict) else None
    assert far(pair.ours(model), changed) < 1e-5 < far(changed, ours)


def test_only_orthogonal_vectors_have_no_penalty(gpt2):
    model = gpt2.model().adapters.add(
        AdaLoRA(rank=4, target_rank=2, max_steps=9, target_modules=("c_attn",))
    )
    with torch.no_grad():
        for part in active(model).parts.values():
            part.a.copy_(torch.eye(*part.a.shape))
            part.b.copy_(torch.eye(*part.b.shape))
    assert float(penalty(model)) == 0
    model.adapters.set_active(None)
    assert penalty(model) is None
