"""A tape plays what the modules compute: in float32 the same, with codes by exact integers."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from cases import Case
from writers import FIRST

import glassformer as gf
from glassformer import native
from glassformer.core.linear import Linear
from glassformer.generate import build, tape
from glassformer.generate.runner import Runner
from glassformer.generate.strategy import GenerationRequest
from glassformer.generate.tape import Tape
from glassformer.generate.taped import ROWS, SHORT, TapeRunner, knows
from glassformer.weights.quantization import GROUP, QuantizedLinear

TAPED = [
    *("ctrl", "gemma", "gemma2", "gemma3_text", "openai-gpt", "gpt2", "gpt_neo", "gpt_neox"),
    *("gptj", "llama", "mistral", "opt", "phi", "qwen2", "qwen3", "xlm"),
]
OPTIONS = {
    "greedy": {},
    "sampled": {"do_sample": True, "seed": 3, "top_p": 0.9, "num_return_sequences": 2},
    "processed": {"repetition_penalty": 1.3, "min_new_tokens": 5, "eos_token_id": 7},
    "beam": {"num_beams": 3, "num_return_sequences": 2},
    "refilled": {"batch_size": 2},
}
SMALL = {"n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 101, "n_positions": 128}

pytestmark = pytest.mark.skipif(build.library() is None, reason="there is no compiler here")


def texts(results):
    return [[one.tokens for one in (result, *result.alternatives)] for result in results]


def together(model, prompts):
    """Logits of both runners, all along: rows leave, join, change places and are copied."""
    requests = [GenerationRequest(i, tuple(prompt), 12) for i, prompt in enumerate(prompts)]
    pair = Runner(model), TapeRunner(model, rows=6)
    logits = [runner.read(requests[:3], 1) for runner in pair]
    for parents in ((0, 1, 2), (0, 2), "join", (1, 0, 2, 3, 4, 5), (0, 0, 2, 5, 5, 5), range(6)):
        if parents == "join":
            read = [runner.read(requests[3:], 2) for runner in pair]
            logits = [torch.cat(both) for both in zip(logits, read, strict=True)]
        else:
            rows = torch.tensor(list(parents))
            tokens = logits[0].argmax(-1)[rows]
            logits = [runner.step(rows, tokens) for runner in pair]
        yield logits


@pytest.mark.parametrize("kind", TAPED)
def test_the_same_logits(kind, tmp_path):
    """A long prompt is read by torch, short ones by the tape."""
    case = Case(FIRST[kind], tmp_path)
    assert knows(case.model)
    with torch.inference_mode():
        for last in (SHORT + 1, 7):
            for plain, played in together(case.model, case.prompts((4, 9, 6, 2, last), 5)):
                assert torch.allclose(plain, played, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_same_tokens(options):
    model = gf.create("gpt2", seed=3, **SMALL)
    prompts = [[1, 2, 3], [4], list(range(50)), [9, 8, 7, 6], [5] * 20]
    plain = model.generate(prompts, max_new_tokens=15, enforce_eager=True, **options)
    assert texts(model.generate(prompts, max_new_tokens=15, **options)) == texts(plain)


def test_a_longer_text_gets_a_longer_store():
    model = gf.create("gpt2", seed=3, **SMALL)
    plain, played = Runner(model), TapeRunner(model, rows=2)
    with torch.inference_mode():
        for request in (
            GenerationRequest(0, (1, 2, 3), 9),
            GenerationRequest(1, tuple(range(40)), 60),
        ):
            assert torch.allclose(plain.read([request], 1), played.read([request], 1), atol=1e-5)
        rows, tokens = torch.tensor([0, 1]), torch.tensor([7, 8])
        assert torch.allclose(plain.step(rows, tokens), played.step(rows, tokens), atol=1e-5)


def test_weights_of_bfloat16_are_read_exactly():
    """Only they are rounded: everything else is computed in float32."""
    model = gf.create("llama-7b", seed=3, **LLAMA)
    rounded = model.bfloat16()
    exact = gf.create("llama-7b", seed=3, **LLAMA)
    exact.load_state_dict({name: x.float() for name, x in rounded.state_dict().items()})
    with torch.inference_mode():
        for one, other in (play(rounded), play(exact)), (play(rounded, 20), play(exact, 20)):
            assert torch.allclose(one, other, atol=1e-5)


LLAMA = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 99,
}


def play(model, tokens=3):
    runner = TapeRunner(model, rows=1)
    return runner.read([GenerationRequest(0, tuple(range(tokens)), 5)], 1)


class Alone(Tape):
    """One linear layer as a whole tape, on rows that are given."""

    def __init__(self, layer, x):
        self.layer, self.x = layer, x
        super().__init__(None, len(x), torch.zeros(1))

    def write(self):
        self.source, self.logits = self.room(self.x.shape[1]), self.room(self.layer.out_features)
        self.source.copy_(self.x)
        self.linear(self.layer, self.source, self.logits, last=1)

    def result(self):
        rows = range(len(self.x))
        return self.play(rows, rows, rows, rows).double().numpy()


def drawn(width, height=37):
    torch.manual_seed(0)
    linear = Linear(width, (height, 14))
    with torch.no_grad():
        linear.weight.normal_()
        linear.bias.normal_()
    return linear


def rounded(x):
    """Integers up to 127, and what they are multiplied by, along the last axis."""
    largest = np.maximum(np.abs(x).max(-1, keepdims=True), np.float32(1e-30))
    return np.rint(x / largest * np.float32(127)).astype(np.int64), largest.astype(float) / 127


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 11, 16])
@pytest.mark.parametrize("width", [40, 96, 256, 320])
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_codes_are_multiplied_as_integers(kind, width, rows):
    layer = QuantizedLinear(drawn(width), kind)
    x = torch.randn(rows, width) * torch.logspace(-3, 3, rows)[:, None]
    codes, scale = layer.codes.numpy(), layer.scale.double().numpy()
    if layer.kind == "int8":
        inputs, sizes = rounded(x.numpy())
        exact = (inputs @ codes.astype(np.int64).T) * sizes * scale[:, 0]
    else:
        pairs = np.stack((codes & 15, codes >> 4), -1).reshape(len(codes), -1, GROUP)
        inputs, sizes = rounded(x.numpy().reshape(rows, -1, GROUP))
        sums = np.einsum("rgi,ogi->rog", inputs, pairs.astype(np.int64) - 8)
        by_group = sums * scale + inputs.sum(-1)[:, None] * layer.zero.double().numpy()
        exact = (by_group * sizes[..., 0][:, None]).sum(-1)
    exact += layer.bias.detach().double().numpy()
    off = np.abs(Alone(layer, x).result() - exact).max(-1)
    assert (off <= 1e-5 * np.abs(exact).max(-1)).all()


@pytest.mark.parametrize("inner", [72, 96])
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_codes_mean_the_same_to_the_modules(kind, inner):
    """Whether a gate's values begin within a portion or at its edge. A number at the border between
    two codes may be rounded to either, so they are near."""
    model = gf.create("llama-7b", seed=3, **{**LLAMA, "intermediate_size": inner}).quantize(kind)
    prompts = [[(7 * i + row) % 99 for i in range(n)] for row, n in enumerate((4, 9, 6, 2, 40))]
    with torch.inference_mode():
        for plain, played in together(model, prompts):
            assert (plain - played).abs().max() < 0.005 * plain.abs().max()


@pytest.mark.parametrize("rows", range(1, ROWS + 1))
@pytest.mark.parametrize("width", [5, 64, 100])
def test_any_number_of_rows_and_columns(width, rows):
    layer, x = drawn(width), torch.randn(rows, width)
    with torch.no_grad():
        assert np.allclose(Alone(layer, x).result(), layer(x).numpy(), atol=1e-4)


def test_what_a_layer_computes_does_not_depend_on_other_rows():
    for kind in ("int8", "int4"):
        layer, x = QuantizedLinear(drawn(96), kind), torch.randn(8, 96)
        alone = np.concatenate([Alone(layer, row[None]).result() for row in x])
        together = Alone(layer, x).result()
        assert np.allclose(together, alone, rtol=1e-6, atol=1e-6)
        assert kind == "int8" or np.array_equal(together, alone)


@pytest.mark.parametrize("activation", tape.ACTIVATIONS)
@pytest.mark.parametrize("gated", [False, True])
def test_activations(activation, gated, tmp_path):
    from glassformer.core.activation import ACTIVATIONS

    torch.manual_seed(0)
    layer, same = Linear(32, (48, 48) if gated else 48), Linear(48, 48, bias=False)
    with torch.no_grad():
        same.weight.copy_(torch.eye(48))
        layer.weight.normal_()
        layer.bias.normal_()
        x = torch.randn(3, 32)

        class Activated(Alone):
            def write(self):
                self.source, self.logits = self.room(32), self.room(48)
                self.sums, hidden = self.room(96), self.room(48)
                self.source.copy_(self.x)
                place = tape.ACTIVATIONS.index(activation)
                self.linear(layer, self.source, hidden, activation=place, gated=int(gated))
                self.linear(same, hidden, self.logits, last=1)

        y = layer(x)
        wanted = ACTIVATIONS[activation](y[:, :48]) * (y[:, 48:] if gated else 1.0)
        assert np.allclose(Activated(layer, x).result(), wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_both_sides_lay_out_operations_alike():
    sizes = ctypes.sizeof(tape.Op), ctypes.sizeof(tape.TapeStep)
    assert build.library().sizes() == 1000 * sizes[0] + sizes[1]


@pytest.mark.parametrize("compiler", ["/nowhere/c++", "false", "true"])
def test_without_a_compiler_the_modules_are_walked(compiler, monkeypatch, tmp_path):
    model = gf.create("gpt2", seed=3, **SMALL)
    expected = model.generate([1, 2, 3], max_new_tokens=15).tokens
    monkeypatch.setenv("CXX", compiler)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    native.library.cache_clear()
    try:
        assert build.library() is None and not knows(model)
        assert model.generate([1, 2, 3], max_new_tokens=15).tokens == expected
    finally:
        monkeypatch.undo()
        native.library.cache_clear()


def test_what_is_listened_to_or_trained_is_not_taped():
    model = gf.create("gpt2", **SMALL)
    assert knows(model)
    hook = model.decoder.blocks[0].ffn.register_forward_hook(lambda *_: None)
    assert not knows(model)
    hook.remove()
    assert knows(model) and not knows(model.train())


def test_a_model_that_has_written_learns_as_before(tmp_path):
    """Its file keeps matrices transposed; the tape lays them out otherwise."""
    gf.create("gpt2", seed=3, **SMALL).save(tmp_path)
    model, fresh = gf.load(tmp_path), gf.load(tmp_path)
    assert not model.decoder.blocks[0].ffn.up.weight.is_contiguous()
    model.generate([1, 2, 3], max_new_tokens=4)
    for one in (model, fresh):
        one(torch.arange(9)[None]).logits.square().mean().backward()
    pairs = zip(model.parameters(), fresh.parameters(), strict=True)
    assert all(torch.allclose(a.grad, b.grad, atol=1e-6) for a, b in pairs)
