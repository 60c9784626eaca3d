"""Span corruption: the spans, the reconstruction and the loss."""

from __future__ import annotations

import material
import numpy as np
import pytest

from glassformer.errors import GlassformerError
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.span_corruption import noise_mask, noise_sizes, row_length

T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 300}


def model(preset: str):
    return material.model(preset, material.sentinels(), **T5)


def rows(objective, *lengths):
    (whole,) = objective.prepare({"text": material.TEXT})
    starts = np.cumsum([0, *lengths[:-1]])
    return [{"tokens": whole["tokens"][s : s + n]} for s, n in zip(starts, lengths, strict=True)]


def by_hand(model, example):
    start = model.spec.tokens.start
    target = example["tokens"]
    logits = model(
        decoder_input_ids=material.ids([start, *target[:-1]]),
        input_ids=material.ids(example["source"]),
    ).logits
    return {"lm": [material.surprise(logits[0, i], t) for i, t in enumerate(target)]}


@pytest.mark.parametrize("preset", ["t5-small", "mt5-small"])
def test_the_gradient_and_that_the_loss_falls(preset):
    made = model(preset)
    objective = make_objective("span-corruption", made, {"max_length": 40})
    material.check_gradients(objective, made, rows(objective, 44, 30, 25), by_hand)
    first, last = material.falls(objective, made, rows(objective, 44, 30, 25))
    assert last < 0.9 * first


def test_lengths_as_in_the_paper():
    """Raffel et al. read 512 tokens and write 114 of rows of 568."""
    assert row_length(512, 0.15, 3.0) == 568
    tokens, spans = noise_sizes(568, 0.15, 3.0)
    assert 568 - tokens + spans + 1 == 512 and tokens + spans + 1 == 114
    for length in (16, 100, 257):
        for density in (0.15, 0.3, 0.5):
            tokens, spans = noise_sizes(row_length(length, density, 3.0), density, 3.0)
            assert row_length(length, density, 3.0) - tokens + spans + 1 <= length


@pytest.mark.parametrize(("density", "mean"), [(0.15, 3.0), (0.5, 3.0), (0.15, 10.0), (0.3, 1.0)])
def test_density_and_mean_length(density, mean):
    masks = [noise_mask(np.array([400]), density, mean, material.draws(s)) for s in range(200)]
    firsts = [(mask & ~np.append(False, mask[:-1])).sum() for mask in masks]
    assert {int(mask.sum()) for mask in masks} == {round(400 * density)}
    assert np.mean([mask.sum() for mask in masks]) / np.mean(firsts) == pytest.approx(mean, rel=0.1)
    assert all(not mask[0] and mask[-1] for mask in masks)
    middle = np.mean(masks, axis=0)[20:-20]
    assert abs(middle.mean() - density) < 0.02 and middle.std() < 0.06


def test_every_cut_is_as_likely():
    """Four tokens of noise in two spans: 1+3, 2+2 and 3+1."""
    sizes = []
    for seed in range(1500):
        mask = noise_mask(np.array([13]), 0.3, 2.0, material.draws(seed))
        edges = np.flatnonzero(np.diff(np.append(mask, False).astype(int)))
        sizes.append(int(edges[1] - edges[0]))
    assert [sizes.count(n) / 1500 for n in (1, 2, 3)] == pytest.approx([1 / 3] * 3, abs=0.05)


@pytest.mark.parametrize("density", [0.15, 0.5])
def test_source_and_target_are_the_text(density):
    made = model("t5-small")
    objective = make_objective(
        "span-corruption", made, {"max_length": 60, "noise_density": density}
    )
    tokenizer = made.tokenizer
    end = tokenizer.special["eos"]
    (example,) = rows(objective, 66)
    for seed in range(30):
        row = material.vary(objective, example, seed)
        source, target = row["source"].tolist(), row["tokens"].tolist()
        assert source.pop() == target.pop() == end
        spans: dict[int, list[int]] = {}
        for token in target:
            if token in objective.sentinels:
                spans[token] = []
            else:
                spans[next(reversed(spans))].append(token)
        assert list(spans) == objective.sentinels[: len(spans)].tolist()
        assert all(spans.values())
        text = [t for token in source for t in spans.pop(token, [token])]
        assert not spans and text == example["tokens"].tolist()
    names = [tokenizer.token(int(id)) for id in objective.sentinels[:2]]
    assert names == ["<extra_id_0>", "<extra_id_1>"]


def test_rows_are_longer_than_what_is_read_of_them():
    objective = make_objective("span-corruption", model("t5-small"), {"max_length": 60})
    row = material.vary(objective, rows(objective, 60 + objective.beyond)[0], 0)
    assert len(row["source"]) == 60
    again = material.vary(objective, rows(objective, 60 + objective.beyond)[0], 0)
    assert all((row[field] == again[field]).all() for field in row)


def test_short_texts():
    objective = make_objective("span-corruption", model("t5-small"), {})
    for length in (1, 2, 3):
        row = material.vary(objective, rows(objective, length)[0], 0)
        assert row["source"][-1] == row["tokens"][-1] == objective.end


def test_what_is_missing_is_named():
    with pytest.raises(GlassformerError, match="have 57 spans, and the tokenizer has 40 sentinels"):
        make_objective("span-corruption", model("t5-small"), {"max_length": 1024})
    with pytest.raises(GlassformerError, match="density = 2"):
        make_objective("span-corruption", model("t5-small"), {"noise_density": 2})
    gpt = material.model("gpt2", material.sentinels(), n_layer=1, n_embd=8, n_head=1,
                         vocab_size=300)  # fmt: skip
    with pytest.raises(GlassformerError, match="no encoder and decoder"):
        make_objective("span-corruption", gpt, {})
