"""Batches of texts have the same results as single texts, in order, with little padding."""

from __future__ import annotations

import random

import pytest
import torch
from small_models import bert, word_tokenizer

from glassformer import GlassformerError
from glassformer.tasks.batching import (
    BatchLimits,
    batched,
    buckets,
    collate,
    map_batched,
    predict_batched,
)

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return bert(word_tokenizer(tmp_path_factory.mktemp("words"), " ".join(WORDS)))


def texts_of(count: int, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 40))) for _ in range(count)]


def scores(model):
    def forward(inputs, texts):
        return model(**inputs, heads=("classify",)).head_outputs["classify"].tolist()

    return forward


def test_as_each_by_itself_and_in_their_order(model):
    texts = texts_of(60)
    encoded = [model.tokenizer.encode(text) for text in texts]
    found = predict_batched(model, encoded, scores(model), tokens=300)
    for text, row in zip(encoded, found, strict=True):
        with torch.inference_mode():
            inputs = torch.tensor([text.ids]), None, torch.tensor([text.segments])
            wanted = model(*inputs).logits[0]
        torch.testing.assert_close(torch.tensor(row), wanted, atol=1e-5, rtol=0)


def test_an_error_stays_in_its_place_and_nothing_is_held_beyond_a_pool(model):
    taken = 0

    def stream():
        nonlocal taken
        for number, text in enumerate(texts_of(100)):
            taken += 1
            yield GlassformerError(f"number {number}") if number % 7 == 3 else text

    def predict(pool):
        encodings = [
            text if isinstance(text, GlassformerError) else model.tokenizer.encode(text)
            for text in pool
        ]
        return predict_batched(model, encodings, scores(model))

    results = map_batched(stream(), predict, size=10)
    assert taken == 0
    for number, result in enumerate(results):
        assert taken <= (number // 10 + 1) * 10
        assert isinstance(result, GlassformerError) == (number % 7 == 3)
        if number % 7 == 3:
            assert str(result) == f"number {number}"
    assert taken == 100


class Stream:
    """An iterator that waits for input after the items whose numbers are `ends`."""

    def __init__(self, items, ends):
        self.items, self.ends, self.taken = iter(items), ends, 0

    def __iter__(self):
        return self

    def __next__(self):
        item = next(self.items)
        self.taken += 1
        return item

    def ready(self):
        return self.taken not in self.ends


def test_a_pool_ends_where_the_next_text_is_not_there_yet():
    stream = Stream(texts_of(6), ends=(2, 3))
    seen = [stream.taken for _ in map_batched(stream, lambda pool: map(str.upper, pool), size=4)]
    assert seen == [2, 2, 3, 6, 6, 6]
    assert list(batched(Stream([1, 2, 3, 4], ends=(3,)), 2)) == [[1, 2], [3], [4]]


def test_a_pool_of_long_texts_is_smaller():
    found = batched(["ab", "c", "defgh", "i", "j", "k", "l"], 3, max_weight=4, weigh=len)
    assert list(found) == [["ab", "c", "defgh"], ["i", "j", "k"], ["l"]]
    assert list(batched(["abcd", "e"], 3, max_weight=4, weigh=len)) == [["abcd"], ["e"]]


@pytest.mark.parametrize("tokens", [64, 500, 4096])
@pytest.mark.parametrize("padding", [0, 40])
def test_batches_waste_little_and_keep_to_their_size(tokens, padding):
    rng = random.Random(5)
    lengths = {i: rng.randint(1, 60) for i in range(512)}
    batches = list(buckets(lengths, BatchLimits(tokens, padding)))
    assert sorted(row for batch in batches for row in batch) == sorted(lengths)
    for batch in batches:
        width = max(lengths[row] for row in batch)
        assert width * len(batch) <= tokens
        assert width * len(batch) - sum(lengths[row] for row in batch) <= padding
    if tokens == 4096:
        assert len(batches) <= 60  # one a length


def test_a_text_longer_than_a_batch_is_a_batch():
    assert list(buckets({0: 3, 1: 5000, 2: 4}, BatchLimits(100, 10))) == [[1], [2, 0]]


def test_a_mask_that_says_nothing_is_left_out(model):
    short, long, pad = (model.tokenizer.encode(t) for t in ("one two", "one two six", "one [PAD]"))
    device = torch.device("cpu")
    assert "attention_mask" not in collate(model, [short, short], device)
    assert collate(model, [short, long], device)["attention_mask"].tolist() == [
        [True] * 4 + [False],
        [True] * 5,
    ]
    assert collate(model, [pad], device)[
        "attention_mask"
    ].all()  # a real token that looks like padding
