"""Masked-LM metrics equal those of a plain loop, one masked piece at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.text import train as train_tokenizer

LINES = [
    "the old miller walked to the river and nobody asked him why",
    "unhappily the millers of the old rivers walked away",
    "",
    "why would anybody walk",
    " ".join(["nobody walked to the old river"] * 5),
]
CONTEXT = 16


@pytest.fixture(scope="module")
def model():
    tokenizer = train_tokenizer("wordpiece", texts=LINES, vocab_size=60)
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2}
    return gf.create("bert-base", seed=3, tokenizer=tokenizer, architectures=["BertForMaskedLM"],
                     vocab_size=60, intermediate_size=64, max_position_embeddings=CONTEXT,
                     **sizes)  # fmt: skip


def pieces(model) -> list[list[int]]:
    """[CLS] ... [SEP] of every line, as much as there is room for."""
    special, capacity, found = model.tokenizer.special, CONTEXT - 2, []
    for line in filter(None, LINES):
        ids = model.tokenizer.ids(line)
        for start in range(0, len(ids), capacity):
            found.append([special["cls"], *ids[start : start + capacity], special["sep"]])
    return found


def test_figures(model, tmp_path):
    """By what the judge has hidden: whole words, and about as many tokens as it says."""
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES))
    found = gf.evaluate(model, path, n_resamples=50)
    assert found.task == "masked-lm" and found.records == len(pieces(model))
    from glassformer.evaluate.masked_lm import MaskedLMEvaluator

    judge = MaskedLMEvaluator(model)
    text = "\n".join(LINES)
    asked = [judge.ask(one) for one in judge.records({"text": text, "where": "x"})]
    mask, tokenizer = model.tokenizer.special["mask"], model.tokenizer
    logprob, tokens, right, words, whole = 0.0, 0, 0, 0, 0
    for ids, piece in zip(pieces(model), asked, strict=True):
        at = [place for place, token in enumerate(piece.shown) if token == mask]
        assert [int(piece.wanted[place]) for place in at] == [ids[place] for place in at]
        assert all(piece.shown[i] == ids[i] for i in range(len(ids)) if i not in at)
        assert len(at) <= math.ceil(0.15 * (len(ids) - 2))
        groups: list[list[int]] = []
        for place in range(1, len(ids) - 1):
            goes_on = tokenizer.token(ids[place]).startswith("##") and place > 1
            groups = [*groups[:-1], [*groups[-1], place]] if goes_on else [*groups, [place]]
        hidden = [group for group in groups if {*group} & {*at}]
        assert sorted(place for group in hidden for place in group) == at  # whole words
        with torch.no_grad():
            said = model(torch.from_numpy(piece.shown)[None]).logits[0].log_softmax(-1)
        logprob += sum(float(said[place, ids[place]]) for place in at)
        hits = {place for place in at if int(said[place].argmax()) == ids[place]}
        tokens, right = tokens + len(at), right + len(hits)
        words, whole = words + len(hidden), whole + sum({*group} <= hits for group in hidden)
    assert words > 3
    wanted = {
        "perplexity": math.exp(-logprob / tokens),
        "accuracy": right / tokens,
        "word_perplexity": math.exp(-logprob / words),
        "word_accuracy": whole / words,
    }
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=1e-4)
    metric = found.metrics["perplexity"]
    assert metric.low < metric.value < metric.high


def test_the_same_words_each_time_whatever_the_order(model):
    records = [{"text": line} for line in LINES if line]
    one = gf.evaluate(model, records, n_resamples=0)
    other = gf.evaluate(model, records[::-1], n_resamples=0)
    assert one["perplexity"] == pytest.approx(other["perplexity"], rel=1e-6)
    assert one.records == other.records and np.isfinite(one["word_perplexity"])


def test_what_cannot_be_judged(model):
    with pytest.raises(GlassformerError, match="record 0: there is no column 'text', only words"):
        gf.evaluate(model, [{"words": "x"}])
    with pytest.raises(GlassformerError, match="record 0: the text must be a text"):
        gf.evaluate(model, [{"text": 5}])
    with pytest.raises(GlassformerError, match="needs a masked language model; GPT2LMHeadModel"):
        gf.evaluate("zoo:shakespeare", [{"text": "x"}], "masked-lm")
