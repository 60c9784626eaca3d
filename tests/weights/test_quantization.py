from __future__ import annotations

import copy
import json
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from silent_changes import SILENT

import glassformer as gf
from glassformer import native
from glassformer.core.linear import Linear
from glassformer.native.instructions import architecture
from glassformer.weights import huge_pages, int4
from glassformer.weights.quantization import GROUP, QuantizedLinear

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


def rounded(x: torch.Tensor) -> torch.Tensor:
    """To 8 bits, by the largest along the last axis."""
    size = x.abs().amax(-1, keepdim=True).clamp(min=1e-30)
    return (x / size * 127).round() * size / 127


@pytest.mark.parametrize("change", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize("kind", KINDS)
def test_changed_scales_and_zeros_take_effect(kind, change):
    """Also if PyTorch does not count the change."""
    linear, x = QuantizedLinear(drawn(), kind), torch.randn(2, 96)
    for name in ("scale", "zero") if kind == "int4" else ("scale",):
        with torch.no_grad():
            linear(x)
            change([getattr(linear, name)])
            other = QuantizedLinear(drawn(), kind)
            other.load_state_dict(linear.state_dict())
            assert torch.equal(linear(x), other(x)), name


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (2, 40)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernels_compute_what_the_codes_stand_for(kind, shape):
    """The input is rounded as well: a row with 8 bits, every group with 4."""
    codes = QuantizedLinear(drawn(), kind)
    x = torch.randn(*shape, 96)
    read = rounded(x) if kind == "int8" else rounded(x.view(*shape, -1, GROUP)).flatten(-2)
    with torch.no_grad():
        assert torch.allclose(codes(x), F.linear(read, codes.weight, codes.bias), atol=1e-4)


MACHINES = {
    "this one": {},
    "without AVX-512": {"GLASSFORMER_CPU": "avx2"},
    "without AVX2": {"GLASSFORMER_CPU": "baseline"},
    "without a compiler": {"CXX": "none"},
    "without a compiler and VNNI": {"CXX": "none", "GLASSFORMER_CPU": "avx2"},
}


@pytest.fixture(params=MACHINES.values(), ids=MACHINES)
def machine(request, monkeypatch):
    if request.param and not torch.cpu._is_avx2_supported():
        pytest.skip("the CPU has no AVX2, so there is nothing to switch off")
    for name, value in request.param.items():
        monkeypatch.setenv(name, value)
    native.library.cache_clear()
    yield
    native.library.cache_clear()


@pytest.mark.parametrize("width", [96, 2080])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_every_machine_computes_the_same(kind, width, machine):
    """All sums of integers are exact, also those of the largest codes, which overflow 16 bits where
    two products are added. What is left is the rounding of float32: scales are applied to a group's
    sum, and groups are added, in other orders."""
    linear = drawn(width)
    linear.weight[0], linear.weight[1] = 1, -1
    codes = QuantizedLinear(linear, kind)
    x = torch.randn(19, width) * torch.logspace(-3, 3, 19)[:, None]
    x[4], x[5], x[6] = 0, 1, -1
    read = rounded(x) if kind == "int8" else rounded(x.view(19, -1, GROUP)).flatten(-2)
    exact = F.linear(read.double(), codes.weight.double(), codes.bias.double())
    together = codes(x)
    off = (together - exact).abs().amax(-1)
    assert (off <= 1e-5 * exact.abs().amax(-1)).all()
    assert torch.equal(together, torch.cat([codes(row[None]) for row in x]))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_every_machine_shows_what_is_not_a_number(kind, machine):
    codes, x = QuantizedLinear(drawn(), kind), torch.randn(3, 96)
    x[1, 17] = float("nan")
    assert codes(x).isnan().all(-1).tolist() == [False, True, False]


def test_a_machine_that_is_not_known_is_an_error(monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CPU", "avx9")
    with pytest.raises(gf.GlassformerError, match="'avx9'; set it to one of native, avx2, base"):
        architecture()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_scales_of_another_dtype_are_read_as_such(kind):
    codes, x = QuantizedLinear(drawn(), kind), torch.randn(3, 96)
    first = codes(x)
    assert torch.allclose(codes.bfloat16()(x), first, rtol=2**-6, atol=0.3)


@pytest.mark.parametrize("height", [1, 16, 23, 64])
def test_portions_are_where_they_are_looked_for(height):
    """A group's 32 codes, then scale and zero, for 16 outputs at a time."""
    codes = QuantizedLinear(drawn(64, height - 1 + 14), "int4")
    laid = int4.Int4Weight(codes.codes, codes.scale, codes.zero).blocks
    assert laid.shape == (-(-codes.out_features // 16), 2, 320)
    for out, row in enumerate(codes.codes.tolist()):
        block, lane = divmod(out, 16)
        for place in range(64):
            group, (half, at) = place // 32, divmod(place % 32, 16)
            byte = int(laid[block, group, at // 4 * 64 + 4 * lane + at % 4])
            assert byte >> 4 * half & 15 == row[place // 2] >> 4 * (place % 2) & 15
    factors = laid[..., 256:].contiguous().view(torch.bfloat16).float()  # [block, group, 16 pairs]
    pairs = factors.view(*factors.shape[:2], 16, 2).transpose(1, 2).flatten(0, 1)
    assert torch.equal(pairs[: codes.out_features, :, 1], codes.scale)
    assert torch.equal(pairs[: codes.out_features, :, 0], codes.zero)


def test_memory_in_large_pages():
    """Tensors do not overlap, begin at a line of the cache, and outlive the slab."""
    sizes = (1, 100, 64, huge_pages.SLAB - 7, 3 * huge_pages.SLAB, 5)
    made = [huge_pages.empty(size).fill_(i) for i, size in enumerate(sizes)]
    for i, (x, size) in enumerate(zip(made, sizes, strict=True)):
        assert (len(x), x.data_ptr() % huge_pages.LINE) == (size, 0)
        assert int(x[0]) == int(x[-1]) == i and x[:: 2**12].eq(i).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_does_not_depend_on_its_neighbors(kind):
    codes = QuantizedLinear(drawn(), kind)
    x = torch.randn(19, 1, 96) * torch.logspace(-3, 3, 19)[:, None, None]
    x[4] = 0
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
    for name, module in model.named_modules():
        if isinstance(module, QuantizedLinear) and not name.startswith("heads"):
            plain.get_submodule(name).weight.data = module.weight
    tokens = torch.arange(24).view(2, 12)
    with torch.no_grad():
        mine, other = model(tokens), plain(tokens)
    assert (
        mine.last_hidden_state - other.last_hidden_state
    ).abs().max() < 0.05 * other.last_hidden_state.abs().max()
    assert not torch.equal(mine.last_hidden_state, other.last_hidden_state)


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
        assert torch.equal(again(tokens).logits, model(tokens).logits)
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8]]
    mine, other = (m.generate(prompts, max_new_tokens=6) for m in (model, again))
    assert [g.tokens for g in mine] == [g.tokens for g in other]


@pytest.mark.parametrize("kind", KINDS)
def test_loading_a_full_model_with_quantize(kind, tmp_path):
    small().save(tmp_path)
    loaded = gf.load(tmp_path, quantize=kind)
    made = small().quantize(kind)
    for (name, mine), other in zip(
        loaded.state_dict().items(), made.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, other), name


def test_a_copy_computes_the_same():
    model = small().quantize("int8")
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        first = model(tokens).logits
        assert torch.equal(copy.deepcopy(model)(tokens).logits, first)


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
    model.bfloat16()
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        plain = model(tokens).logits
        packed = model.pack()(tokens).logits
    assert packed.dtype == torch.bfloat16
    assert (plain - packed).abs().max() <= 0.05 * plain.abs().max()


def test_what_cannot_be_is_said(tmp_path):
    with pytest.raises(
        gf.GlassformerError, match="no quantization 'int3'; choose one of int8, int4"
    ):
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
    whole = gf.load("shakespeare")  # its head is its embedding
    coded = gf.load("shakespeare", quantize=kind)
    assert coded.num_parameters() == whole.num_parameters()
    assert f"{whole.num_parameters():,} parameters in {kind}\n" in repr(coded)


def test_torch_says_nothing_to_the_user():
    program = "import glassformer as gf; gf.load('shakespeare', quantize='int8').generate('To be')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
