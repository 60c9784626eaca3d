from __future__ import annotations

import copy
import json
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import glassformer as gf
from glassformer.core.linear import Linear
from glassformer.weights.quantize import GROUP, QuantizedLinear

KINDS = ["int8", "int4"]
SMALL = {"n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 101, "n_positions": 64}


def drawn(width: int = 96, height: int = 50) -> Linear:
    torch.manual_seed(0)
    linear = Linear(width, (height, 14))
    with torch.no_grad():
        linear.weight.normal_()
        linear.bias.normal_()
    return linear


def small(**settings) -> gf.Model:
    return gf.create("gpt2", seed=3, **{**SMALL, **settings})


def test_eight_bits_are_the_nearest_of_255_steps_of_each_row():
    linear = drawn()
    codes = QuantizedLinear(linear, "int8")
    for row, (mine, exact) in enumerate(zip(codes.weight, linear.weight, strict=True)):
        step = float(exact.abs().max()) / 127
        assert (mine - exact).abs().max() <= step / 2 * 1.001, row
        assert (mine / step - (mine / step).round()).abs().max() < 1e-3


def test_four_bits_are_near_in_each_group():
    linear = drawn()
    codes = QuantizedLinear(linear, "int4")
    groups = linear.weight.view(64, -1, GROUP)
    step = (groups.amax(-1) - groups.amin(-1)) / 15
    off = (codes.weight.view_as(groups) - groups).abs().amax(-1)
    assert (off / step).max() < 0.6  # half a step, and what bfloat16 rounds off the scale and zero
    assert codes.codes.nbytes == linear.weight.numel() / 2


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (2, 40)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernels_compute_what_the_codes_stand_for(kind, shape):
    codes = QuantizedLinear(drawn(), kind)
    x = torch.randn(*shape, 96)
    with torch.no_grad():
        fast, weight = codes(x), codes.weight
        if kind == "int8":  # the input is rounded as well
            size = x.abs().amax(-1, keepdim=True)
            read = (x / size * 127).round() * size / 127
            assert torch.allclose(fast, F.linear(read, weight, codes.bias), atol=1e-4)
        else:  # in bfloat16, which the result is in before its bias
            exact = F.linear(x.bfloat16().float(), weight)
            assert torch.allclose(fast - codes.bias, exact, rtol=2**-7, atol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_does_not_depend_on_its_neighbors(kind):
    codes = QuantizedLinear(drawn(), kind)
    x = torch.randn(5, 1, 96) * torch.tensor([1.0, 100.0, 0.01, 0.0, 3.0])[:, None, None]
    with torch.no_grad():
        together = codes(x)
        alone = torch.cat([codes(row[None]) for row in x])
    assert torch.equal(together, alone)


def test_a_width_that_has_no_whole_groups_takes_eight_bits():
    assert QuantizedLinear(drawn(width=40), "int4").kind == "int8"


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_net_is_the_one_of_the_written_out_weights(kind):
    model, plain = small(), small()
    model.quantize(kind)
    for name, module in model.net.named_modules():
        if isinstance(module, QuantizedLinear) and not name.startswith("heads"):
            plain.net.get_submodule(name).weight.data = module.weight
    tokens = torch.arange(24).view(2, 12)
    with torch.no_grad():
        mine, other = model.net(tokens), plain.net(tokens)
    assert (mine.hidden - other.hidden).abs().max() < 0.05 * other.hidden.abs().max()
    assert not torch.equal(mine.hidden, other.hidden)


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_load_keep_every_byte(kind, tmp_path):
    model = small().quantize(kind)
    model.save(tmp_path / "a")
    again = gf.load(tmp_path / "a")
    again.save(tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        assert torch.equal(again.net(tokens).logits, model.net(tokens).logits)
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8]]
    mine, other = (m.generate(prompts, max_new_tokens=6) for m in (model, again))
    assert [g.tokens for g in mine] == [g.tokens for g in other]


@pytest.mark.parametrize("kind", KINDS)
def test_loading_a_full_model_with_quantize(kind, tmp_path):
    small().save(tmp_path)
    loaded = gf.load(tmp_path, quantize=kind)
    made = small().quantize(kind)
    for (name, mine), other in zip(
        loaded.net.state_dict().items(), made.net.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, other), name


def test_a_copy_computes_the_same():
    model = small().quantize("int8")
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        first = model.net(tokens).logits
        assert torch.equal(copy.deepcopy(model.net)(tokens).logits, first)


@pytest.mark.parametrize("name, settings", [("t5-small", {"d_model": 64, "num_layers": 2})])
@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_decoder(name, settings, kind, tmp_path):
    sizes = {"d_ff": 128, "num_decoder_layers": 2, "num_heads": 2, "d_kv": 32, "vocab_size": 99}
    model = gf.create(name, **settings, **sizes).quantize(kind)
    model.save(tmp_path)
    texts = [
        m.generate([5, 6, 7], max_new_tokens=5, num_beams=2) for m in (model, gf.load(tmp_path))
    ]
    assert texts[0].tokens == texts[1].tokens


def test_bfloat16_is_packed_too():
    model = small()
    model.net.bfloat16()
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        plain = model.net(tokens).logits
        packed = model.pack().net(tokens).logits
    assert packed.dtype == torch.bfloat16
    assert (plain - packed).abs().max() <= 0.05 * plain.abs().max()


def test_what_cannot_be_is_said(tmp_path):
    with pytest.raises(gf.GlassformerError, match="no quantization 'int3'; choose of int8, int4"):
        small().quantize("int3")
    model = small().quantize("int8")
    with pytest.raises(gf.GlassformerError, match="quantized already"):
        model.quantize("int4")
    model.save(tmp_path)
    with pytest.raises(gf.GlassformerError, match="loaded as they were saved"):
        gf.load(tmp_path, dtype="bfloat16")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "n_layer": 1}))
    with pytest.raises(gf.GlassformerError, match=r"should not have decoder\.blocks\.1"):
        gf.load(tmp_path)
    config |= {"quantization_config": {"quant_method": "gptq"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(gf.GlassformerError, match="Another program has quantized"):
        gf.load(tmp_path)


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_codes_count_for_the_parameters_that_they_stand_for(kind):
    whole = repr(gf.load("shakespeare"))  # its head is its embedding
    assert repr(gf.load("shakespeare", quantize=kind)) == whole.replace(">", f" in {kind}>")


def test_torch_says_nothing_to_the_user():
    program = "import glassformer as gf; gf.load('shakespeare', quantize='int8').generate('To be')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
