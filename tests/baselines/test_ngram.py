"""The n-gram model, compared with Kneser-Ney's formulas on counts in dictionaries."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from glassformer import GlassformerError
from glassformer.baselines.ngram import NGram, kneser_ney_discounts
from glassformer.text.training.train import train

TEXT = ("the cat sat on the mat. the dog sat on the log. a cat and a dog met on the mat; " * 4)[
    :250
]
MORE = "the dog and the cat sat. that mat is the cat's, this log the dog's: so be it, zzz!"


@pytest.fixture(scope="module")
def tokenizer():
    return train("char", texts=[TEXT, MORE, "qx"])


def expected(texts: list[str], order: int, alphabet: int):
    """Modified Kneser-Ney, with a table of continuations per context."""
    grams = [
        Counter(text[i : i + k] for text in texts for i in range(len(text) - k + 1))
        for k in range(1, order + 1)
    ]
    tables = []
    for k in range(1, order + 1):
        counts = grams[k - 1]
        if k < order:
            before = defaultdict(set)
            for longer in grams[k]:
                before[longer[1:]].add(longer[0])
            counts = {gram: len(before[gram]) for gram in counts}
        n = Counter(counts.values())
        d = {0: 0.0, 1: 0.5, 2: 1.0, 3: 1.5}
        if all(n[i] for i in (1, 2, 3, 4)):
            y = n[1] / (n[1] + 2 * n[2])
            found = {0: 0.0} | {i: i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3)}
            if all(0 <= found[i] <= i for i in found):
                d = found
        tables.append((counts, d))

    def chance(context: str, token: str) -> float:
        p = 1 / alphabet
        for k, (counts, d) in enumerate(tables, 1):
            here = context[len(context) - k + 1 :]
            after = {g[-1]: c for g, c in counts.items() if g[:-1] == here}
            total = sum(after.values())
            if len(context) < k - 1 or not total:
                break
            left = sum(d[min(c, 3)] for c in after.values())
            c = after.get(token, 0)
            p = (c - d[min(c, 3)] + left * p) / total
        return p

    return chance


@pytest.mark.parametrize("order", [1, 2, 4])
def test_probabilities_are_kneser_neys(tokenizer, order):
    model = NGram.train([TEXT, MORE], tokenizer, order=order)
    chance = expected([TEXT, MORE], order, tokenizer.size)
    seen = "the dog qxat on the mat"  # with characters that the counts lack
    wanted = [math.log(chance(seen[:i], seen[i])) for i in range(1, len(seen))]
    score = model.score(seen)
    np.testing.assert_allclose(score.logprobs, wanted, rtol=1e-9)
    assert score.tokens == tokenizer.ids(seen)[1:]
    assert score.perplexity == pytest.approx(math.exp(-sum(wanted) / len(wanted)))
    assert model.context_length == order - 1


@pytest.mark.parametrize("context", ["", "t", "the ", "the cat sat on", "qxq"])
def test_the_probabilities_of_all_tokens_sum_to_one(tokenizer, context):
    chances = NGram.train([TEXT, MORE], tokenizer, order=4).next_probabilities(context)
    assert chances.shape == (tokenizer.size,) and chances.min() > 0
    assert chances.sum() == pytest.approx(1)


def test_next_probabilities_are_those_that_a_score_uses(tokenizer):
    model = NGram.train(TEXT, tokenizer, order=3)
    score = model.score("the cat")
    last = model.next_probabilities("the ca")[tokenizer.id("t")]
    assert score.logprobs[-1] == pytest.approx(math.log(last))


def test_samples_follow_the_seed_and_the_counts(tokenizer):
    model = NGram.train(TEXT, tokenizer, order=6)
    one = model.generate("the ", max_new_tokens=30, seed=1)
    assert one == model.generate("the ", max_new_tokens=30, seed=1)
    assert one != model.generate("the ", max_new_tokens=30, seed=2)
    assert len(one) == 30
    alone = train("char", texts=["ab"])
    sure = NGram.train("ab" * 5000, alone, order=3)
    drawn = sure.generate("a", max_new_tokens=200, seed=3)
    assert set(drawn) == {"a", "b"} and len(drawn) == 200  # no special tokens
    assert drawn.count("ab") + drawn.count("ba") > 150


def test_discounts_by_their_formulas():
    counts = np.repeat([1, 2, 3, 4, 7], [40, 12, 6, 3, 5])
    y = 40 / (40 + 2 * 12)
    wanted = [0, 1 - 2 * y * 12 / 40, 2 - 3 * y * 6 / 12, 3 - 4 * y * 3 / 6]
    np.testing.assert_allclose(kneser_ney_discounts(counts), wanted)
    assert kneser_ney_discounts(np.array([5, 6])).tolist() == [0.0, 0.5, 1.0, 1.5]


def test_errors_name_the_remedy(tokenizer):
    with pytest.raises(GlassformerError, match="order must be 1 or more, not 0"):
        NGram.train(TEXT, tokenizer, order=0)
    with pytest.raises(GlassformerError, match="There is no text"):
        NGram.train([], tokenizer)
    with pytest.raises(GlassformerError, match="No text has 5 tokens; lower order"):
        NGram.train("abc", tokenizer, order=5)
    model = NGram.train(TEXT, tokenizer, order=2)
    with pytest.raises(GlassformerError, match="a longer one"):
        model.score("a")
    with pytest.raises(GlassformerError, match="not below the vocabulary's"):
        model.score([1, 10_000])
