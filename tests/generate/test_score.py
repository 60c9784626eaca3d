"""Scores against the plain computation, in one pass and in windows."""

from __future__ import annotations

import math

import pytest
import torch

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.evaluate.quantization_cost import quantization_cost

IDS = [(7 * i * i + 3 * i) % 1000 for i in range(40)]


@pytest.fixture(scope="module")
def bard():
    return gf.load("shakespeare")


@torch.no_grad()
def plain(model, ids, window, stride):
    """Every token after the first by a pass of its own over what its window shows of the text."""
    found = []
    for place in range(1, len(ids)):
        end = window  # of the first window in which the token before this one stands
        while end < place:
            end += stride
        end = min(end, len(ids) - 1)
        seen = ids[max(0, end - window) : place]
        found.append(float(model(torch.tensor([seen])).logits[0, -1].log_softmax(-1)[ids[place]]))
    return found


def test_a_text_that_fits_is_one_pass(bard):
    result = bard.score(IDS)
    assert result.tokens == IDS[1:]
    assert result.logprobs == pytest.approx(plain(bard, IDS, 256, 128), abs=1e-4)
    assert result.total == pytest.approx(sum(result.logprobs))
    assert result.perplexity == pytest.approx(math.exp(-result.total / 39))


@pytest.mark.parametrize(("window", "stride"), [(8, 1), (8, 3), (8, 8), (16, None), (39, 5)])
def test_windows_score_every_token_once(bard, window, stride):
    result = bard.score(IDS, window=window, stride=stride)
    wanted = plain(bard, IDS, window, stride or window // 2)
    assert result.logprobs == pytest.approx(wanted, abs=1e-4)


def test_a_text_beyond_the_context_is_scored(bard):
    ids = IDS * 8
    result = bard.score(ids)
    assert len(result.logprobs) == len(ids) - 1
    assert result.logprobs[:256] == pytest.approx(bard.score(ids[:257]).logprobs, abs=1e-4)
    tail = bard.score(ids[-257:]).logprobs  # the last window, as a text of its own
    assert result.logprobs[-50:] == pytest.approx(tail[-50:], abs=1e-4)


def test_more_context_never_hurts_on_average_here(bard):
    text = "ROMEO:\n" + bard.generate("ROMEO:\n", max_new_tokens=120, eos_token_id=None).text
    found = [bard.score(text, window=16, stride=stride).perplexity for stride in (16, 4, 1)]
    assert found == sorted(found, reverse=True)


def test_a_model_without_a_context_reads_all_of_a_long_text(monkeypatch):
    from glassformer.generate import score

    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    llama = gf.create("llama-7b", seed=2, **sizes, **heads, vocab_size=1000)
    whole = llama.score(IDS).logprobs
    assert whole == pytest.approx(plain(llama, IDS, 100, 50), abs=1e-5)
    monkeypatch.setattr(score, "CHUNK", 7)
    assert llama.score(IDS).logprobs == pytest.approx(whole, abs=1e-5)
    windowed = llama.score(IDS, window=10, stride=4).logprobs
    assert windowed == pytest.approx(plain(llama, IDS, 10, 4), abs=1e-5)


def test_a_text_beyond_the_context_of_rotary_positions_is_scored_in_windows():
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16}
    llama = gf.create("llama-7b", seed=2, **sizes, **heads, vocab_size=1000)
    assert llama.score(IDS).logprobs == pytest.approx(plain(llama, IDS, 16, 8), abs=1e-5)
    with pytest.raises(GlassformerError, match=r"window \(17\) is above the model's 16 positions"):
        llama.score(IDS, window=17)


def test_an_encoder_decoder_scores_a_target():
    sizes = {"d_model": 16, "d_ff": 24, "d_kv": 8, "num_heads": 2, "num_layers": 2}
    t5 = gf.create("t5-small", seed=2, **sizes, vocab_size=1000)
    source, target = IDS[:9], IDS[9:15]
    with torch.no_grad():
        out = t5(
            decoder_input_ids=torch.tensor([[0, *target[:-1]]]), input_ids=torch.tensor([source])
        )
    log = out.logits[0].log_softmax(-1)
    wanted = [float(log[i, token]) for i, token in enumerate(target)]
    assert t5.score(source, target).logprobs == pytest.approx(wanted, abs=1e-5)
    with pytest.raises(GlassformerError, match="scores a target beside the text"):
        t5.score(source)


def test_the_source_of_a_score_has_to_fit():
    size = {"d_model": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "vocab_size": 60}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    layers = {"encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 16}
    bart = gf.create("bart-base", **size, **heads, **layers)
    with pytest.raises(GlassformerError, match="4 more than the model's 16 positions"):
        bart.score([5] * 20, [6, 7])
    assert len(bart.score([5] * 9, [6, 7] * 20).logprobs) == 40  # the target goes by windows


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ([5], {}, "A text of one token has nothing to predict"),
        ("", {}, "The prompt is empty"),
        ([5, 2000], {}, "has the token 2000"),
        (IDS, {"window": 0}, "window must be 1 or more, not 0"),
        (IDS, {"window": 500}, r"window \(500\) is above the model's 256"),
        (IDS, {"window": 8, "stride": 9}, r"stride \(9\) is above the window \(8\)"),
        (IDS, {"target": [5]}, "Only an encoder-decoder scores a target"),
    ],
)
def test_bad_scores(bard, text, more, said):
    with pytest.raises(GlassformerError, match=said):
        bard.score(text, **more)


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_what_quantization_costs(kind):
    text = "ROMEO:\nBut soft, what light through yonder window breaks?"
    model = gf.load("shakespeare")
    before = model.score(text)
    cost = quantization_cost(model, kind, text)
    assert cost.before == before
    assert cost.after == model.score(text) == gf.load("shakespeare", quantize=kind).score(text)
    assert cost.growth == pytest.approx(cost.after.perplexity / before.perplexity - 1)
    assert str(cost).startswith(f"{kind}: perplexity {before.perplexity:.4f} -> ")


def test_what_quantization_costs_a_translator():
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 99, **heads}
    bart = gf.create("bart-base", seed=1, **sizes)
    cost = quantization_cost(bart, "int8", [5, 6, 7], [8, 9])
    assert len(cost.before.logprobs) == len(cost.after.logprobs) == 2
    with pytest.raises(GlassformerError, match="quantized already"):
        quantization_cost(bart, "int4", [5, 6, 7], [8, 9])
