"""Eight threads that share models give what each gives alone."""

from __future__ import annotations

import copy
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import small
import torch

from glassformer import inside
from glassformer.generate import prefix
from glassformer.tasks import task_cache
from glassformer.weights import huge_pages

TEXT = "time flies like an arrow"


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Threads take turns as often as possible, and short prefixes are shared."""
    for name, value in {"LEAST": 4, "WORTH": 4, "READS": 1}.items():
        monkeypatch.setattr(prefix, name, value)
    monkeypatch.setattr(task_cache, "SIZE", 2)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def generate(models, number):
    texts = [f"{TEXT} {'like ' * (30 + i)}fruit" for i in range(number % 4 + 1)]
    found = models["decoder"].generate(texts, max_new_tokens=10)
    return [one.tokens for one in found]


def look(models, number):
    view = models["decoder"].look(f"{TEXT} {'like ' * (number % 3)}")
    return view.attention[number % 3, 0].array.tolist()


def edit(models, number):
    model = models["decoder"]
    with model.edit(*inside.ablate_layer(number % 3, model.spec)):
        return model.generate(TEXT, max_new_tokens=10).tokens


def classify(models, number):
    texts = [TEXT, "the robot must obey", "fruit flies"][: number % 3 + 1]
    found = models["encoder"].classify(texts, max_length=(None, 8, 16, 31)[number % 4])
    return [(one.label, one.probability) for one in found]


def quantized(models, number):
    found = models["int4"].generate([TEXT, "a robot"], max_new_tokens=8, num_beams=number % 2 + 1)
    return [(one.tokens, one.logprobs) for one in found]


def streamed(models, number):
    return [piece.token for piece in models["decoder"].stream(TEXT, seed=number, top_k=5)][:9]


WORK = [generate, look, edit, classify, quantized, streamed]


def made():
    decoder = small.decoder()
    four = copy.deepcopy(decoder).quantize("int4")
    encoder = small.encoder("SequenceClassification").pack()
    return {"decoder": decoder, "int4": four, "encoder": encoder}


def test_threads_give_what_each_gives_alone():
    models, numbers = made(), list(range(48))

    def work(number, models=models):
        return WORK[number % len(WORK)](models, number // len(WORK))

    alone = [work(number) for number in numbers]
    for _ in range(2):
        fresh = made()  # nothing is cached yet
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda number, fresh=fresh: work(number, fresh), numbers))
        assert found == alone


def test_threads_get_memory_of_their_own():
    def take(number):
        return [huge_pages.empty(64 * (number % 3 + 1)) for _ in range(400)]

    with ThreadPoolExecutor(8) as pool:
        tensors = [tensor for some in pool.map(take, range(8)) for tensor in some]
    places = sorted((tensor.data_ptr(), tensor.nbytes) for tensor in tensors)
    for (at, size), (following, _) in pairwise(places):
        assert at + size <= following


def test_a_changed_model_does_not_get_the_texts_of_a_call_that_began_before():
    model = small.decoder()
    texts = [f"{TEXT} {'like ' * 36}fruit", f"{TEXT} {'like ' * 36}banana"]
    pieces = model.stream(texts[0], max_new_tokens=12)
    next(pieces)
    with torch.no_grad():
        model.decoder.blocks[0].ffn.up.weight.data.mul_(-1)
    model.generate(texts[1], max_new_tokens=2)
    list(pieces)  # it ends, and is not kept for the new weights
    for text in texts:
        found = model.generate(text, max_new_tokens=6)
        wanted = model.generate(text, max_new_tokens=6, prefix_cache_bytes=0)
        assert found.logprobs == pytest.approx(wanted.logprobs, abs=1e-5)
