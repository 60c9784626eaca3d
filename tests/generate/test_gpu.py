"""On a GPU the same tokens, in float32, as on the CPU: played back, or step by step."""

from __future__ import annotations

import copy

import pytest
import torch
from cases import Case
from writers import FIRST

import glassformer as gf
from glassformer.generate import prefix, recordings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
]
PROMPTS = ["To be, or", "ROMEO:\n", "Is the day so young?", "A", "My lord, the king", "Once"]
OPTIONS = {
    "greedy": {},
    "sampled": {"do_sample": True, "seed": 3, "top_p": 0.9, "num_return_sequences": 2},
    "processed": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3},
    "beam": {"num_beams": 3, "num_return_sequences": 2},
    "stopped": {"stop_strings": ["\n"]},
    "refilled": {"batch_size": 2},
    "one by one": {"batch_size": 1},
    "stopped one by one": {"batch_size": 1, "stop_strings": ["\n", " the"]},
    "stopped two by two": {"batch_size": 2, "stop_strings": ["e", "a", "o"]},
    "in pieces": {"prefill_chunk": 2},
}


@pytest.fixture(scope="module")
def both():
    return gf.load("shakespeare"), gf.load("shakespeare", device="cuda")


def texts(results):
    return [[one.tokens for one in (result, *result.alternatives)] for result in results]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("eager", [False, True])
def test_the_same_tokens_as_on_the_cpu(both, options, eager):
    cpu, gpu = both
    expected = texts(cpu.generate(PROMPTS, max_new_tokens=40, **options))
    assert (
        texts(gpu.generate(PROMPTS, max_new_tokens=40, enforce_eager=eager, **options)) == expected
    )
    assert (
        texts(gpu.generate(PROMPTS, max_new_tokens=40, enforce_eager=eager, **options)) == expected
    )


def test_streamed_the_same(both):
    cpu, gpu = both
    for options in ({}, {"stop_strings": ["\n"]}):
        pieces = list(gpu.stream(PROMPTS[1], max_new_tokens=40, **options))
        whole = cpu.generate(PROMPTS[1], max_new_tokens=40, **options)
        assert "".join(piece.text for piece in pieces) == whole.text
        assert [piece.token for piece in pieces] == whole.tokens


def test_compiled_the_same(both):
    cpu, gpu = both
    for options in ({}, {"num_beams": 3}):
        expected = texts(cpu.generate(PROMPTS, max_new_tokens=20, **options))
        assert texts(gpu.generate(PROMPTS, max_new_tokens=20, compile=True, **options)) == expected


def test_two_streams_at_once_do_not_disturb_each_other(both):
    cpu, gpu = both
    expected = [cpu.generate(prompt, max_new_tokens=40).tokens for prompt in PROMPTS[:2]]
    streams = [gpu.stream(prompt, max_new_tokens=40) for prompt in PROMPTS[:2]]
    pairs = list(zip(*streams, strict=True))
    assert [[piece.token for piece in pieces] for pieces in zip(*pairs, strict=True)] == expected
    left = gpu.stream(PROMPTS[0], max_new_tokens=40)
    next(left)
    left.close()  # in the middle: the next call finds nothing of it
    assert gpu.generate(PROMPTS[1], max_new_tokens=40).tokens == expected[1]


SIZES = {
    "gpt2": {"n_layer": 2, "n_embd": 192, "n_head": 3, "vocab_size": 1001, "n_positions": 128},
    "llama-3.2-1b": {
        "num_hidden_layers": 2, "hidden_size": 1024, "intermediate_size": 4096, "head_dim": 64,
        "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 1001,
        "max_position_embeddings": 128,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 3, 64])
@torch.inference_mode()
def test_the_triton_step_computes_what_the_modules_compute(name, dtype, rows):
    from glassformer.generate.backends.triton.step import TritonStep
    from glassformer.generate.backends.triton.support import supported_program
    from glassformer.generate.slots import PrefillCache, StaticCache

    model = gf.create(name, seed=3, **SIZES[name]).to("cuda", dtype).eval()
    exact = copy.deepcopy(model).float()
    tokens = torch.randint(0, 1001, (rows, 9), device="cuda")
    mask = torch.arange(9, device="cuda") >= torch.arange(rows, device="cuda")[:, None] % 5
    slots = StaticCache.empty(model, rows, 64)
    filling, cache, plain = PrefillCache(slots), gf.Cache(), gf.Cache()
    model(tokens, attention_mask=mask, past_key_values=filling)
    filling.settle()
    exact(tokens, attention_mask=mask, past_key_values=cache)
    model(tokens, attention_mask=mask, past_key_values=plain)
    step = TritonStep(model, supported_program(model), slots)
    for _ in range(3):
        token = torch.randint(0, 1001, (rows, 1), device="cuda")
        ours = step(token).float()
        wanted = exact(token, past_key_values=cache).logits[:, -1]
        others = model(token, past_key_values=plain).logits[:, -1].float()
        if dtype == torch.float32:
            assert (ours - wanted).abs().max() < 1e-4 * wanted.abs().max()
        else:  # as near to the exact logits as the model in the same precision, or nearer
            assert (ours - wanted).abs().mean() < 1.2 * (others - wanted).abs().mean()


def test_generation_needs_little_memory_beside_weights_and_cache():
    rows, length = 64, 320
    model = gf.create("gpt2")
    model.to("cuda", torch.bfloat16).eval()
    net_bytes = sum(p.nbytes for p in model.parameters())
    cache_bytes = rows * length * 12 * 2 * 768 * 2
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() - net_bytes  # of other tests
    prompts = torch.randint(0, 50257, (rows, 32)).tolist()
    model.generate(prompts, max_new_tokens=256, eos_token_id=(), batch_size=rows)
    peak = torch.cuda.max_memory_allocated() - before
    assert peak <= 1.1 * (net_bytes + cache_bytes)


BEAMS = {
    "shorter": {"num_beams": 3, "length_penalty": -1.0, "num_return_sequences": 3},
    "patient": {"num_beams": 4, "length_penalty": 2.0, "early_stopping": "never"},
    "early": {"num_beams": 4, "early_stopping": True, "num_return_sequences": 4},
    "groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.7},
    "at least": {"num_beams": 5, "min_new_tokens": 9},
    "watched": {"num_beams": 3, "tree": True},
    "processed": {"num_beams": 3, "repetition_penalty": 1.3},
    "refilled": {"num_beams": 3, "batch_size": 6},
    "nothing twice": {"num_beams": 3, "no_repeat_ngram_size": 2, "batch_size": 6},
    "forbidden": {"num_beams": 3, "bad_words_ids": [[5], [6, 7]]},
}


@pytest.mark.parametrize("options", BEAMS.values(), ids=BEAMS)
@pytest.mark.parametrize("type_", ["marian", "m2m_100", "t5", "gpt2", "llama"])
def test_beams_in_bursts(type_, options, tmp_path):
    """Twice, and for sources of other lengths: a recording is played again where it fits."""
    case = Case(FIRST[type_], tmp_path)
    gpu = gf.load(case.folder, device="cuda")
    for lengths in ((4, 9, 6, 2, 7), (5, 3, 8), (4, 9, 6, 2, 7)):
        prompts = case.prompts(lengths, seed=5)
        expected = texts(case.model.generate(prompts, max_new_tokens=12, **options))
        assert texts(gpu.generate(prompts, max_new_tokens=12, **options)) == expected


def test_compiled_beams_in_bursts(tmp_path):
    case = Case(FIRST["marian"], tmp_path)
    prompts, options = case.prompts((4, 9, 6), seed=5), {"num_beams": 3, "max_new_tokens": 12}
    expected = texts(case.model.generate(prompts, **options))
    gpu = gf.load(case.folder, device="cuda")
    assert texts(gpu.generate(prompts, compile=True, **options)) == expected


@pytest.mark.parametrize("name", FIRST.values(), ids=FIRST)
def test_every_family_that_writes(name, tmp_path):
    case = Case(name, tmp_path)
    prompts = case.prompts((4, 9, 6, 2, 7), seed=5)
    options = [{}, {"num_beams": 3}, {"repetition_penalty": 1.5}]
    expected = [texts(case.model.generate(prompts, max_new_tokens=12, **k)) for k in options]
    gpu = gf.load(case.folder, device="cuda")
    for k, wanted in zip(options, expected, strict=True):
        assert texts(gpu.generate(prompts, max_new_tokens=12, **k)) == wanted


def test_what_was_read_is_not_read_again(monkeypatch):
    """A conversation, and prompts that begin alike: the same tokens as without."""
    monkeypatch.setattr(prefix, "LEAST_ON_GPU", 8)
    model = gf.load("shakespeare", device="cuda")
    text = model.tokenizer.encode("ROMEO:\nBut soft, what light through yonder window breaks?").ids
    without = {"prefix_cache_bytes": 0, "max_new_tokens": 12}
    for _ in range(3):
        said = model.generate(text, max_new_tokens=12).tokens
        assert model._prefix_cache.texts and said == model.generate(text, **without).tokens
        model.generate(text, max_new_tokens=12)
        text = text + said + [5, 6]
    prompts = [[*text, i] for i in range(6)] + [text[:9]]
    found = [one.tokens for one in model.generate(prompts, max_new_tokens=12)]
    assert found == [one.tokens for one in model.generate(prompts, **without)]


def halved(model):
    for weight in model.parameters():
        weight.data = weight.data.clone() * 0.5


def silent(model):
    model.decoder.blocks[0].ffn.up.weight.data.mul_(-1.5)


CHANGES = {
    "data": halved,
    "written in place": silent,
    "the decoder's dtype": lambda model: model.decoder.to(torch.float64).to(torch.float32),
    "assigned": lambda model: model.load_state_dict(
        {name: 0.9 * weight for name, weight in model.state_dict().items()}, assign=True
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("options", [{}, {"top_k": 5}, {"num_beams": 3}], ids=str)
def test_a_changed_model_is_not_played_with_old_weights(change, options):
    cpu, gpu = gf.load("shakespeare"), gf.load("shakespeare", device="cuda")
    for model in (cpu, gpu):
        model.generate(PROMPTS, max_new_tokens=20, **options)
        change(model)
    found, expected = (
        texts(model.generate(PROMPTS, max_new_tokens=20, **options)) for model in (gpu, cpu)
    )
    assert found == expected
    tokens = gpu.tokenizer(PROMPTS[0], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = gpu(tokens.cuda()).logits.cpu()
        torch.testing.assert_close(logits, cpu(tokens).logits, atol=1e-3, rtol=1e-3)


def test_a_temperature_needs_no_recording_of_its_own():
    cpu, gpu = gf.load("shakespeare"), gf.load("shakespeare", device="cuda")
    for temperature in (0.5, 0.7, 0.9, 1.0, 1.3, 2.0):
        options = {"temperature": temperature, "seed": 2, "max_new_tokens": 20}
        found, expected = (texts(model.generate(PROMPTS, **options)) for model in (gpu, cpu))
        assert found == expected
        assert len(gpu._recorded.kept) == 1


def test_only_the_latest_recordings_are_kept():
    gpu = gf.load("shakespeare", device="cuda")
    for k in range(2, 10):
        gpu.generate(PROMPTS[0], top_k=k, max_new_tokens=4)
    assert len(gpu._recorded.kept) == recordings.MOST


def test_a_function_of_the_user_changes_the_scores():
    def only_seven(token_ids, scores):
        assert token_ids.is_cuda and scores.is_cuda
        return torch.where(torch.arange(scores.shape[1], device="cuda") == 7, scores, -1e9)

    gpu = gf.load("shakespeare", device="cuda")
    for options in ({}, {"num_beams": 3}, {"enforce_eager": True}):
        found = gpu.generate(PROMPTS, logits_processor=only_seven, max_new_tokens=4, **options)
        assert all(one.tokens == [7] * 4 for one in found)
