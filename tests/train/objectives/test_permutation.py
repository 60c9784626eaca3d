"""Permutation language modeling, compared with explicit sums."""

from __future__ import annotations

from dataclasses import replace

import material
import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer import spec
from glassformer.core import Permutation
from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.rows import RaggedColumn

XLNET = {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48, "vocab_size": 300,
         "mem_len": 12, "reuse_len": 3}  # fmt: skip


def xlnet():
    return material.model("xlnet-base", material.pieces(), **XLNET)


def gated():
    """Of no published family: XLNet's attention, another feed-forward layer and norm."""
    body = xlnet().spec
    blocks = tuple(
        replace(
            block,
            ffn=spec.FeedForwardSpec(width=24, activation="silu", gated=True),
            placement="pre",
        )
        for block in body.encoder.attention_blocks
    )
    stack = replace(body.encoder, blocks=blocks, final_norm=spec.NormSpec())
    made = gf.create(replace(body, encoder=stack), tokenizer=material.pieces())
    made.double().eval()
    return made


MODELS = {"xlnet": xlnet, "gated": gated}


def stored(objective):
    return list(objective.prepare({"text": material.TEXT}))


def by_hand(model, example):
    """Every target in a pass of its own, which asks for it alone. What it may see is found by
    going through the order; all that comes later in it is hidden from all that come before."""
    tokens, order = material.ids(example["tokens"]), example["order"]
    length = len(order)
    hidden = torch.zeros(1, length, length, dtype=torch.bool)
    for query in range(length):
        for key in range(length):
            hidden[0, query, key] = bool(order[key] >= max(0, order[query]))
    losses = []
    for place, target in zip(example["at"], example["targets"], strict=True):
        cache = None
        if len(example.get("before", ())):
            cache = model.new_cache()
            cache.reuse_length = None  # all of what stands before is kept
            with torch.no_grad():
                model(material.ids(example["before"]), past_key_values=cache)
        asked = Permutation(hidden, torch.tensor([[place]]))
        segments = torch.zeros_like(tokens)
        logits = model(
            tokens, token_type_ids=segments, permutation=asked, past_key_values=cache
        ).logits[0, 0]
        losses.append(material.surprise(logits, target))
    return {"lm": losses}


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_and_that_the_loss_falls(name):
    model = MODELS[name]()
    objective = make_objective(
        "permutation-lm", model, {"max_length": 30, "partial_prediction": 4, "max_span_length": 3}
    )
    material.check_gradients(objective, model, stored(objective)[-4:], by_hand)
    first, last = material.falls(objective, model, stored(objective))
    assert last < 0.9 * first


def test_the_gradient_with_a_memory():
    model = xlnet()
    objective = make_objective("permutation-lm", model, {"memory_length": 10})
    assert objective.batching == "concatenate" and objective.before == 10
    tokens = stored(objective)[0]["tokens"]
    rows = [
        {
            "tokens": tokens[s : s + 20],
            "before": tokens[max(0, s - 10) : s],
            "documents": np.arange(20) // 9,  # a text is read on across documents
        }
        for s in (0, 6, 20)
    ]
    material.check_gradients(objective, model, rows, by_hand)


def test_nothing_that_comes_later_is_known():
    """A target's logits stay what they are when all that come later, and itself, are others."""
    model = xlnet()
    objective = make_objective("permutation-lm", model, {"max_length": 40, "partial_prediction": 3})
    row = material.vary(objective, stored(objective)[1], 2)
    tokens, order = material.ids(row["tokens"]), torch.from_numpy(row["order"])[None]
    asked = Permutation.from_order(order, material.ids(row["at"]))
    with torch.no_grad():
        expected = model(tokens, permutation=asked).logits[0]
        for number, place in enumerate(row["at"]):
            later = order >= order[0, place]
            found = model(torch.where(later, 299 - tokens, tokens), permutation=asked).logits
            torch.testing.assert_close(found[0, number], expected[number])
            first = torch.where(order == order[order >= 0].min(), 299 - tokens, tokens)
            found = model(first, permutation=asked).logits
            if order[0, place] > order[order >= 0].min():
                assert not torch.allclose(found[0, number], expected[number])


def test_a_sixth_is_asked_for_in_spans_of_whole_words():
    model = xlnet()
    objective = make_objective("permutation-lm", model, {"max_length": 200})
    example = {"tokens": np.concatenate([e["tokens"][:-2] for e in stored(objective)] * 4)}
    starts = objective.vocabulary.starts(
        RaggedColumn(example["tokens"], np.array([len(example["tokens"])]))
    )
    word = np.cumsum(starts) - 1
    shares, sizes = [], []
    for seed in range(100):
        row = material.vary(objective, example, seed)
        chosen = np.zeros(len(word), dtype=bool)
        chosen[row["at"]] = True
        words = np.array([chosen[word == w].all() for w in range(word[-1] + 1)])
        assert sum(chosen) == np.isin(word, np.flatnonzero(words)).sum()
        shares.append(words.mean())
        edges = np.diff(np.concatenate(([0], words, [0])))
        sizes += list(np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1))
    assert np.mean(shares) == pytest.approx(1 / 6, abs=0.01)
    weights = 1 / np.arange(1, 6)
    expected = weights / weights.sum()  # but for spans that touch
    found = [sizes.count(n) / len(sizes) for n in range(1, 6)]
    assert found == pytest.approx(expected, abs=0.04)


def test_orders():
    model = xlnet()
    objective = make_objective("permutation-lm", model, {"max_length": 60})
    example = stored(objective)[0]
    special = np.isin(example["tokens"], list(model.tokenizer.special_ids))
    assert special.any()
    seen = set()
    for seed in range(30):
        row = material.vary(objective, example, seed)
        ordered = row["order"] >= 0
        assert set(row["at"]) == set(np.flatnonzero(ordered & ~special))
        assert special[np.flatnonzero(ordered)].sum() == special.sum()
        assert sorted(row["order"][ordered]) == list(range(ordered.sum()))
        assert (row["targets"] == example["tokens"][row["at"]]).all()
        seen.add(row["order"].tobytes())
    assert len(seen) == 30
    again = [material.vary(objective, example, 5)["order"] for _ in range(2)]
    assert (again[0] == again[1]).all()


def test_single_tokens_and_very_short_texts():
    model = xlnet()
    objective = make_objective(
        "permutation-lm", model, {"partial_prediction": 1, "max_span_length": 1}
    )
    example = stored(objective)[0]
    row = material.vary(objective, example, 0)
    assert len(row["at"]) > 0.9 * len(example["tokens"])  # all of them: a language model
    (short,) = make_objective("permutation-lm", model, {}).prepare({"text": "He"})
    assert len(material.vary(objective, short, 0)["at"]) >= 1


def test_a_model_without_queries_is_told_so():
    gpt = material.model("gpt2", material.pieces(), n_layer=1, n_embd=8, n_head=1, vocab_size=300)
    with pytest.raises(GlassformerError, match="stream of queries"):
        make_objective("permutation-lm", gpt, {})
