"""GGUF files, written here with the `gguf` package as llama.cpp's converter writes them."""

from __future__ import annotations

import json
import struct

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type

import glassformer as gf
from glassformer.weights.formats.gguf import GgufTensors
from glassformer.weights.formats.gguf_dequantize import FORMATS
from tests.weights.gguf_files import GPT2, LLAMA, add_tokenizer, write, write_model

TOKENS = torch.arange(40).view(2, 20) % 29


def logits(model):
    with torch.no_grad():
        return model(TOKENS).logits


def largest(one, other):
    return float((one - other).detach().abs().max())


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: FORMATS[kind].name)
def test_every_type_gives_what_the_gguf_package_gives(kind):
    kind = Type(kind)
    ours = FORMATS[kind]
    assert (ours.name, ours.size, ours.layout.itemsize) == (kind.name, *gguf.GGML_QUANT_SIZES[kind])
    raw = np.random.default_rng(0).integers(0, 256, (300, ours.layout.itemsize), np.uint8)
    with np.errstate(invalid="ignore"):  # bytes at random are also infinite and undefined scales
        found = ours.dequantize(raw.reshape(-1).view(ours.layout))
        plain = {Type.F32: np.float32, Type.F16: np.float16}.get(kind)
        given = raw if plain is None else raw.view(plain)
        expected = gguf.quants.dequantize(given, kind).astype(np.float32)
    np.testing.assert_array_equal(found, expected.reshape(-1))


def test_many_blocks_are_read_in_pieces():
    values = np.random.default_rng(0).standard_normal((3, 1 << 19)).astype(np.float32)
    raw = gguf.quants.quantize(values, Type.Q8_0)
    found = FORMATS[Type.Q8_0].dequantize(raw.reshape(-1).view(FORMATS[Type.Q8_0].layout))
    np.testing.assert_array_equal(found.reshape(3, -1), gguf.quants.dequantize(raw, Type.Q8_0))


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("preset", ["llama-7b", "gpt2"])
def test_a_file_is_the_model_that_was_converted(tmp_path, preset, tied):
    settings = {"llama-7b": LLAMA, "gpt2": GPT2}[preset]
    model = gf.create(preset, seed=3, **settings, tie_word_embeddings=tied)
    path = write_model(tmp_path / "model.gguf", model)
    loaded = gf.load(path)
    assert (
        loaded.architecture == model.architecture
        and loaded.spec.tied_weights == model.spec.tied_weights
    )
    assert torch.equal(logits(loaded), logits(model))
    assert loaded.load_report.dropped == {} and loaded.load_report.made == []
    assert loaded.load_report.files == ("model.gguf",) and loaded.load_report.dtypes == ("float32",)
    assert loaded.tokenizer is None


@pytest.mark.parametrize("preset", ["llama-7b", "gpt2"])
def test_biases_are_turned_and_named_too(tmp_path, preset):
    settings = GPT2 if preset == "gpt2" else {**LLAMA, "attention_bias": True, "mlp_bias": True}
    model = gf.create(preset, seed=3, **settings)
    for number, (name, parameter) in enumerate(model.named_parameters()):
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(number))
    loaded = gf.load(write_model(tmp_path / "model.gguf", model))
    assert torch.equal(logits(loaded), logits(model))


@pytest.mark.parametrize("kind", [Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1])
@pytest.mark.parametrize("preset", ["llama-7b", "gpt2"])
def test_a_quantized_file_is_the_model_of_the_rounded_weights(tmp_path, preset, kind):
    model = gf.create(preset, seed=3, **(GPT2 if preset == "gpt2" else LLAMA))
    path = write_model(tmp_path / "model.gguf", model, kind)
    reader = {t.name: t for t in gguf.GGUFReader(path).tensors}
    loaded = gf.load(path)
    tensors = reader["token_embd.weight"], reader["blk.1.ffn_down.weight"]
    embed, down = (torch.from_numpy(gguf.dequantize(t.data, t.tensor_type)) for t in tensors)
    assert torch.equal(loaded.decoder.embed.token.weight, embed.float())
    assert torch.equal(loaded.decoder.blocks[1].ffn.down.weight, down.float())
    assert 0 < largest(logits(loaded), logits(model)) < 0.2
    half = gf.load(path, dtype="bfloat16")
    assert half.load_report.dtypes == ("bfloat16",)
    assert torch.equal(half.decoder.embed.token.weight, embed.to(torch.bfloat16))


@pytest.mark.parametrize("preset", ["llama-7b", "gpt2"])
def test_saved_it_is_a_folder_that_the_reference_loads(tmp_path, preset):
    import transformers

    model = gf.create(preset, seed=3, **(GPT2 if preset == "gpt2" else LLAMA))
    loaded = gf.load(write_model(tmp_path / "model.gguf", model, Type.Q8_0, tokenizer=True))
    loaded.save(tmp_path / "folder")
    again = gf.load(tmp_path / "folder")
    assert torch.equal(logits(again), logits(loaded))
    assert again.tokenizer.encode("ab ba").ids == loaded.tokenizer.encode("ab ba").ids
    reference = getattr(transformers, loaded.architecture)
    theirs, info = reference.from_pretrained(tmp_path / "folder", output_loading_info=True)
    assert not any(info.values())
    assert largest(theirs.eval()(TOKENS).logits, logits(loaded)) < 1e-5
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert tokenizer("ab ba")["input_ids"] == loaded.tokenizer.encode("ab ba").ids


def llama3_factors(theta=10_000.0, dim=16, factor=8.0, trained=64):
    """As convert_hf_to_gguf.py writes them."""
    factors = []
    for i in range(0, dim, 2):
        wavelength = 2 * np.pi * theta ** (i / dim)
        smooth = (trained / wavelength - 1.0) / (4.0 - 1.0)
        between = 1 / ((1 - smooth) / factor + smooth)
        slow = factor if wavelength > trained / 1.0 else between
        factors.append(1.0 if wavelength < trained / 4.0 else slow)
    return np.array(factors, np.float32)


def test_the_scaling_of_llama_3_is_found_in_its_factors(tmp_path):
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64}  # fmt: skip
    model = gf.create("llama-7b", seed=3, **LLAMA, rope_scaling=scaling)
    extra = {"rope_freqs.weight": llama3_factors()}
    loaded = gf.load(write_model(tmp_path / "model.gguf", model, extra=extra))
    assert loaded.config["rope_scaling"] == scaling
    assert torch.equal(logits(loaded), logits(model))
    assert list(loaded.load_report.dropped.values()) == ["the frequencies, which are computed"]


def test_factors_of_another_making_are_an_error(tmp_path):
    model = gf.create("llama-7b", seed=3, **LLAMA)
    extra = {"rope_freqs.weight": np.linspace(1, 9, 8, dtype=np.float32)}
    with pytest.raises(gf.GlassformerError, match=r"rope_freqs.weight that is not made as Llama 3"):
        gf.load(write_model(tmp_path / "model.gguf", model, extra=extra))


@pytest.mark.parametrize(
    ("keys", "scaling"),
    [
        ({"rope.scaling.type": "none"}, None),
        ({"rope.scale_linear": 2.0}, {"rope_type": "linear", "factor": 2.0}),
        (
            {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
            {"rope_type": "linear", "factor": 4.0},
        ),
        (
            {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
             "rope.scaling.original_context_length": 16},
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        ),
    ],
    ids=["none", "old linear", "linear", "yarn"],
)  # fmt: skip
def test_named_scalings_of_rotary_positions(tmp_path, keys, scaling):
    model = gf.create("llama-7b", seed=3, **LLAMA, **({"rope_scaling": scaling} if scaling else {}))
    keys = {f"llama.{key}": value for key, value in keys.items()}
    loaded = gf.load(write_model(tmp_path / "model.gguf", model, keys=keys))
    assert loaded.spec.decoder.blocks[0].position == model.spec.decoder.blocks[0].position


def test_what_is_written_into_a_mapped_weight_stays_out_of_the_file(tmp_path):
    path = write_model(tmp_path / "model.gguf", gf.create("gpt2", **GPT2))
    before = path.read_bytes()
    with torch.no_grad():
        gf.load(path).decoder.embed.token.weight.zero_()
    assert path.read_bytes() == before


# Files that are no good


@pytest.fixture
def path(tmp_path):
    model = gf.create("llama-7b", seed=3, **LLAMA)
    return write_model(tmp_path / "model.gguf", model, Type.Q8_0, tokenizer=True)


def refused(path, match):
    """One sentence, and before any tensor has been read."""
    with pytest.raises(gf.GlassformerError, match=match) as caught:
        gf.load(path)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_every_cut_is_noticed(path):
    whole = path.read_bytes()
    for size in [*range(1, 2000, 37), len(whole) // 2, len(whole) - 100]:
        path.write_bytes(whole[:size])
        refused(path, r"ends inside its header|is cut off: \S+ ends at byte")
    path.write_bytes(b"")
    refused(path, "is empty; get it again")


@pytest.mark.parametrize(
    ("at", "new", "match"),
    [
        (0, b"GGML", r"is not a GGUF file: it begins with b'GGML'"),
        (4, struct.pack("<I", 1), "is of GGUF version 1; the versions 2 and 3 are read"),
        (4, struct.pack(">I", 3), "is a big-endian GGUF file"),
    ],
    ids=["magic", "version", "big-endian"],
)
def test_another_kind_of_file(path, at, new, match):
    content = bytearray(path.read_bytes())
    content[at : at + len(new)] = new
    path.write_bytes(content)
    refused(path, match)


def test_a_type_that_is_not_read_is_named_with_its_tensor(tmp_path):
    model = gf.create("llama-7b", seed=3, **LLAMA)
    raw = np.zeros((64, 64 // 32 * gguf.GGML_QUANT_SIZES[Type.Q5_1][1]), np.uint8)
    path = write_model(
        tmp_path / "model.gguf", model, replace={"blk.1.attn_q.weight": (raw, Type.Q5_1)}
    )
    refused(path, r"holds blk.1.attn_q.weight in the type Q5_1; the types that are read are F32,")


def test_an_unknown_architecture(tmp_path):
    path = write(tmp_path / "model.gguf", "rwkv6", {}, {})
    refused(path, "a model of the architecture 'rwkv6'; known are llama, gpt2")


def test_a_vocabulary_alone(tmp_path):
    path = write(tmp_path / "model.gguf", "llama", {}, {}, tokenizer=add_tokenizer)
    refused(path, "has no token_embd.weight, so it holds no model")


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ({"llama.block_count": None}, "lacks llama.block_count"),
        ({"llama.attention.head_count": [4, 2]}, "no single number as llama.attention.head_count"),
        ({"llama.block_count": 1 << 31}, "block_count = 2147483648 and only 21 tensors"),
        ({"llama.expert_count": 8}, "a mixture of experts"),
        ({"llama.rope.dimension_count": 8}, "llama.rope.dimension_count = 8 and heads of 16"),
        ({"llama.rope.scaling.type": "longrope"}, "type = 'longrope'; known are none, linear"),
        ({"llama.block_count": 3}, "lacks model.layers.2.self_attn.q_proj.weight"),
        ({"llama.block_count": 1}, "has model.layers.1.self_attn.q_proj.weight"),
        ({"llama.feed_forward_length": 96}, r"shape \[128, 64\] in the file and \[96, 64\]"),
        ({"split.count": 3}, "is one part of several"),
        ({"general.alignment": 0}, "has general.alignment = 0"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_metadata_that_does_not_fit(tmp_path, keys, match):
    model = gf.create("llama-7b", seed=3, **LLAMA)
    refused(write_model(tmp_path / "model.gguf", model, keys=keys), match)


def test_a_tensor_that_nobody_knows(tmp_path):
    model = gf.create("llama-7b", seed=3, **LLAMA)
    extra = {"blk.0.surprise.weight": np.ones(3, np.float32)}
    refused(write_model(tmp_path / "model.gguf", model, extra=extra), "has blk.0.surprise.weight")


def test_no_file(tmp_path):
    refused(tmp_path / "none.gguf", "There is no file")


def test_the_net_loads_where_the_tokenizer_is_of_an_unknown_kind(tmp_path):
    model = gf.create("llama-7b", seed=3, **LLAMA)
    keys = {"tokenizer.ggml.pre": "deepseek-coder"}
    loaded = gf.load(write_model(tmp_path / "model.gguf", model, keys=keys, tokenizer=True))
    assert torch.equal(logits(loaded), logits(model))
    with pytest.raises(gf.GlassformerError, match="by the unknown rule 'deepseek-coder'"):
        _ = loaded.tokenizer


def test_the_command_line_shows_it(glassformer, path):
    _, shown, _ = glassformer("inspect", str(path), "--json")
    model = gf.load(path)
    assert json.loads(shown)["parameters"] == model.num_parameters()
    path.write_bytes(path.read_bytes()[:-2000])
    code, _, error = glassformer("inspect", str(path))
    assert code == 1 and error.startswith("error:") and "is cut off" in error


def test_the_header_is_read_as_the_gguf_package_reads_it(path):
    ours, theirs = GgufTensors(path), gguf.GGUFReader(path)
    fields = {k: f.contents() for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    assert ours.metadata.keys() == fields.keys()
    for key, value in fields.items():
        expected = pytest.approx(value) if isinstance(value, float) else value
        assert ours.metadata[key] == expected
    places = {name: (entry.start, entry.end - entry.start) for name, entry in ours.entries.items()}
    assert places == {t.name: (t.data_offset, t.n_bytes) for t in theirs.tensors}
