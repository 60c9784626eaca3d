"""The C++ back end equals the modules in float32; products of quantized weights are exact sums."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from cases import NAMES, Case, sample, writes

import glassformer as gf
from glassformer import native
from glassformer.core.linear import Linear
from glassformer.generate.backends.cpp import structures
from glassformer.generate.backends.cpp.build import library
from glassformer.generate.backends.cpp.runner import ROWS, SHORT, CppRunner
from glassformer.generate.backends.cpp.step import CppStep, KeyValueStore, StepInput
from glassformer.generate.backends.cpp.support import is_supported, supported_program
from glassformer.generate.backends.support import ACTIVATIONS, compiled
from glassformer.generate.program import LinearOp, StepProgram
from glassformer.generate.runner import Runner
from glassformer.generate.strategy import GenerationRequest
from glassformer.weights.quantization import GROUP, QuantizedLinear

COMPILED = [name for name in NAMES if writes(name) and isinstance(compiled(name.spec), StepProgram)]
FIRST = sample(COMPILED, "body")
OPTIONS = {
    "greedy": {},
    "sampled": {"do_sample": True, "seed": 3, "top_p": 0.9, "num_return_sequences": 2},
    "processed": {"repetition_penalty": 1.3, "min_new_tokens": 5, "eos_token_id": 7},
    "beam": {"num_beams": 3, "num_return_sequences": 2},
    "refilled": {"batch_size": 2},
}
SMALL = {"n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 101, "n_positions": 128}

pytestmark = pytest.mark.skipif(library() is None, reason="there is no compiler here")


def texts(results):
    return [[one.tokens for one in (result, *result.alternatives)] for result in results]


def requests(case, prompts, limit=12):
    """Requests for a case; an encoder reads the prompts, and the decoder texts of its own."""
    if not case.both:
        return [GenerationRequest(i, tuple(text), limit) for i, text in enumerate(prompts)]
    begun = case.texts([1 + i % 3 for i in range(len(prompts))], seed=8)
    pairs = enumerate(zip(begun, prompts, strict=True))
    return [GenerationRequest(i, tuple(text), limit, source) for i, (text, source) in pairs]


def together(model, asked):
    """Logits of both runners, step by step: rows leave, join, change places and are copied."""
    pair = Runner(model), CppRunner(model, rows=6)
    logits = [runner.read(asked[:3], 1) for runner in pair]
    for parents in ((0, 1, 2), (0, 2), "join", (1, 0, 2, 3, 4, 5), (0, 0, 2, 5, 5, 5), range(6)):
        if parents == "join":
            read = [runner.read(asked[3:], 2) for runner in pair]
            logits = [torch.cat(both) for both in zip(logits, read, strict=True)]
        else:
            rows = torch.tensor(list(parents))
            tokens = logits[0].argmax(-1)[rows]
            logits = [runner.step(rows, tokens) for runner in pair]
        yield logits


def assert_same_logits(case, asked, rtol=1e-5):
    with torch.inference_mode():
        for plain, fast in together(case.model, asked):
            assert torch.allclose(plain, fast, rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("name", FIRST, ids=str)
def test_the_same_logits(name, tmp_path):
    """For every body that has a step program. Torch reads the long prompt of a decoder alone."""
    case = Case(name, tmp_path)
    assert supported_program(case.model)
    for last in (SHORT + 1, 7):
        assert_same_logits(case, requests(case, case.prompts((4, 9, 6, 2, last), 5)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in COMPILED if name not in FIRST], ids=str)
def test_the_same_logits_of_every_class(name, tmp_path):
    case = Case(name, tmp_path)
    assert_same_logits(case, requests(case, case.prompts((4, 9, 6, 2, SHORT + 1), 5)))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_same_tokens(options):
    model = gf.create("gpt2", seed=3, **SMALL)
    prompts = [[1, 2, 3], [4], list(range(50)), [9, 8, 7, 6], [5] * 20]
    plain = model.generate(prompts, max_new_tokens=15, enforce_eager=True, **options)
    assert texts(model.generate(prompts, max_new_tokens=15, **options)) == texts(plain)


def test_a_longer_text_gets_a_longer_store():
    model = gf.create("gpt2", seed=3, **SMALL)
    plain, fast = Runner(model), CppRunner(model, rows=2)
    with torch.inference_mode():
        for request in (
            GenerationRequest(0, (1, 2, 3), 9),
            GenerationRequest(1, tuple(range(40)), 60),
        ):
            assert torch.allclose(plain.read([request], 1), fast.read([request], 1), atol=1e-5)
        rows, tokens = torch.tensor([0, 1]), torch.tensor([7, 8])
        assert torch.allclose(plain.step(rows, tokens), fast.step(rows, tokens), atol=1e-5)


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
    runner = CppRunner(model, rows=1)
    return runner.read([GenerationRequest(0, tuple(range(tokens)), 5)], 1)


def result(x, *layers, **options):
    """What linear layers compute from rows, one after another. The options are the first one's."""
    net, last = torch.nn.Module(), len(layers) - 1
    operations, buffers = [], {"0": x.shape[1]}
    for number, layer in enumerate(layers):
        setattr(net, f"layer{number}", layer)
        target, rows = ("logits", "select") if number == last else (str(number + 1), "all")
        width = layer.out_features // (2 if number == 0 and options.get("gated") else 1)
        buffers[target] = width
        operations.append(
            LinearOp(
                layer=f"layer{number}", source=str(number), target=target, rows=rows, **options
            )
        )
        options = {}
    program = StepProgram(
        operations=tuple(operations),
        buffers=buffers,
        self_attention=(),
        cross_attention=(),
        uncounted_token=None,
        uncounted_position=0,
    )
    step = CppStep(net, program, len(x), KeyValueStore((), 1, 64))
    step.buffers["0"].copy_(x)
    rows = range(len(x))
    return step.run([StepInput(0, 0, row, 0) for row in rows], rows).double().numpy()


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
    off = np.abs(result(x, layer) - exact).max(-1)
    assert (off <= 1e-5 * np.abs(exact).max(-1)).all()


@pytest.mark.parametrize("inner", [72, 96])
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_codes_mean_the_same_to_the_modules(kind, inner):
    """Whether a gate's values begin within a portion or at its edge. A number at the border between
    two codes may be rounded to either, so they are near."""
    model = gf.create("llama-7b", seed=3, **{**LLAMA, "intermediate_size": inner}).quantize(kind)
    prompts = [[(7 * i + row) % 99 for i in range(n)] for row, n in enumerate((4, 9, 6, 2, 40))]
    with torch.inference_mode():
        asked = [GenerationRequest(i, tuple(prompt), 12) for i, prompt in enumerate(prompts)]
        for plain, fast in together(model, asked):
            assert (plain - fast).abs().max() < 0.005 * plain.abs().max()


@pytest.mark.parametrize("rows", range(1, ROWS + 1))
@pytest.mark.parametrize("width", [5, 64, 100])
def test_any_number_of_rows_and_columns(width, rows):
    layer, x = drawn(width), torch.randn(rows, width)
    with torch.no_grad():
        assert np.allclose(result(x, layer), layer(x).numpy(), atol=1e-4)


def test_what_a_layer_computes_does_not_depend_on_other_rows():
    for kind in ("int8", "int4"):
        layer, x = QuantizedLinear(drawn(96), kind), torch.randn(8, 96)
        alone = np.concatenate([result(row[None], layer) for row in x])
        together = result(x, layer)
        assert np.allclose(together, alone, rtol=1e-6, atol=1e-6)
        assert kind == "int8" or np.array_equal(together, alone)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("gated", [False, True])
def test_activations(activation, gated):
    from glassformer.core.activation import ACTIVATIONS

    torch.manual_seed(0)
    layer, same = Linear(32, (48, 48) if gated else 48), Linear(48, 48, bias=False)
    with torch.no_grad():
        same.weight.copy_(torch.eye(48))
        layer.weight.normal_()
        layer.bias.normal_()
        x = torch.randn(3, 32)
        y = layer(x)
        wanted = ACTIVATIONS[activation](y[:, :48]) * (y[:, 48:] if gated else 1.0)
        found = result(x, layer, same, activation=activation, gated=gated)
        assert np.allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_the_input_is_scaled_and_the_output_capped():
    layer, x = drawn(64), torch.randn(3, 64)
    with torch.no_grad():
        wanted = 2 * torch.tanh(layer(0.5 * x) / 2)
    assert np.allclose(result(x, layer, scale=0.5, softcap=2.0), wanted.numpy(), atol=1e-5)


def test_both_sides_lay_out_operations_alike():
    sizes = ctypes.sizeof(structures.CppOp), ctypes.sizeof(structures.StepRows)
    assert library().sizes() == 1000 * sizes[0] + sizes[1]


@pytest.mark.parametrize("compiler", ["/nowhere/c++", "false", "true"])
def test_without_a_compiler_the_modules_are_used(compiler, monkeypatch, tmp_path):
    model = gf.create("gpt2", seed=3, **SMALL)
    expected = model.generate([1, 2, 3], max_new_tokens=15).tokens
    monkeypatch.setenv("CXX", compiler)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    native.library.cache_clear()
    try:
        assert library() is None and not is_supported(model)
        assert model.generate([1, 2, 3], max_new_tokens=15).tokens == expected
    finally:
        monkeypatch.undo()
        native.library.cache_clear()


def test_what_has_a_hook_or_is_trained_runs_on_the_modules():
    model = gf.create("gpt2", **SMALL)
    assert is_supported(model)
    hook = model.decoder.blocks[0].ffn.register_forward_hook(lambda *_: None)
    assert not is_supported(model)
    hook.remove()
    assert is_supported(model) and not is_supported(model.train())


def test_a_model_that_has_written_learns_as_before(tmp_path):
    """Its file keeps matrices transposed; the compiled step needs them in rows."""
    gf.create("gpt2", seed=3, **SMALL).save(tmp_path)
    model, fresh = gf.load(tmp_path), gf.load(tmp_path)
    assert not model.decoder.blocks[0].ffn.up.weight.is_contiguous()
    model.generate([1, 2, 3], max_new_tokens=4)
    for one in (model, fresh):
        one(torch.arange(9)[None]).logits.square().mean().backward()
    pairs = zip(model.parameters(), fresh.parameters(), strict=True)
    assert all(torch.allclose(a.grad, b.grad, atol=1e-6) for a, b in pairs)
