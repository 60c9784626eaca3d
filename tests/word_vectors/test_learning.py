"""The kernel equals the torch steps, results are deterministic, and vectors are useful."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from glassformer import native
from glassformer.errors import GlassformerError
from glassformer.word_vectors import (
    GloVe,
    Word2Vec,
    cooccurrences,
    learn_glove,
    learn_word2vec,
    read_corpus,
)
from glassformer.word_vectors.kernel import kernel
from glassformer.word_vectors.thread_pool import process_chunks
from glassformer.word_vectors.word2vec import BATCH

ANIMALS, PLACES = ("cat", "dog", "cow"), ("paris", "rome", "oslo")

SMALL = Word2Vec(vector_size=20, window=3, negative=5, epochs=2, sample=1e-2)
compiled = pytest.mark.skipif(kernel() is None, reason="there is no compiler")


@compiled
@pytest.mark.parametrize("kind", ["skip-gram", "cbow"])
@pytest.mark.parametrize("negative", [1, 5, 14])
def test_the_kernel_does_what_the_steps_do(corpus, kind, negative):
    settings = replace(SMALL, type=kind, negative=negative, learning_rate=0.1)
    corpus = replace(corpus, bounds=corpus.bounds[:81], ids=corpus.ids[: corpus.bounds[80]])
    fast, plain = learn_word2vec(corpus, settings), learn_word2vec(corpus, settings, batch=1)
    start = learn_word2vec(corpus, replace(settings, learning_rate=1e-9, min_lr=1e-9))
    assert np.abs(fast.table - start.table).max() > 0.02
    np.testing.assert_allclose(fast.table, plain.table, atol=1e-6)


@compiled
def test_glove_in_the_kernel(corpus):
    counts, settings = cooccurrences(corpus, 5), GloVe(vector_size=20, epochs=3, x_max=50)
    fast = learn_glove(corpus.words, counts, settings)
    plain = learn_glove(corpus.words, counts, settings, batch=1)
    np.testing.assert_allclose(fast.table, plain.table, atol=1e-6)


@pytest.mark.parametrize("compiler", ["/nowhere/c++", "false"])
def test_without_a_compiler_torch_computes(corpus, compiler, monkeypatch, tmp_path):
    expected = learn_word2vec(corpus, SMALL, batch=BATCH)
    monkeypatch.setenv("CXX", compiler)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    native.library.cache_clear()
    try:
        assert kernel() is None
        found = learn_word2vec(corpus, replace(SMALL, num_workers=2))
        assert found.table.tobytes() == expected.table.tobytes()
    finally:
        native.library.cache_clear()


def test_cooccurrences_by_brute_force(story, monkeypatch):
    monkeypatch.setattr("glassformer.word_vectors.glove.COUNTED", 100)  # several chunks
    corpus = read_corpus([story])
    wanted: dict[tuple[str, str], float] = {}
    for line in story.read_text().splitlines():
        words = line.split()
        for i, a in enumerate(words):
            for j, b in enumerate(words):
                if i != j and abs(i - j) <= 3:
                    wanted[a, b] = wanted.get((a, b), 0) + 1 / abs(i - j)
    counts = cooccurrences(corpus, 3)
    words = corpus.words
    pairs = zip(counts.first.tolist(), counts.second.tolist(), strict=True)
    found = {(words[a], words[b]): v for (a, b), v in zip(pairs, counts.value, strict=True)}
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize("kind", ["skip-gram", "cbow", "softmax", "torch", "glove"])
def test_same_seed_same_bytes_and_words_of_a_kind_are_near(corpus, kind):
    def learn(seed):
        if kind == "glove":
            settings = GloVe(vector_size=16, epochs=60, x_max=20, seed=seed)
            batch = None if kernel() else 8  # torch's usual batches leave too few steps here
            return learn_glove(corpus.words, cooccurrences(corpus, 4), settings, batch=batch)
        batch = 8 if kind in ("softmax", "torch") else None
        settings = Word2Vec(
            type=kind if kind == "cbow" else "skip-gram",
            vector_size=16,
            window=4,
            negative=0 if kind == "softmax" else 5,
            epochs=4 if batch else 12,
            sample=1e-2,
            learning_rate=0.15 if batch else 0.1,
            seed=seed,
        )
        return learn_word2vec(corpus, settings, batch=batch)

    vectors = learn(3)
    assert learn(3).table.tobytes() == vectors.table.tobytes()
    assert not np.allclose(learn(4).table, vectors.table)
    for group, others in ((ANIMALS, PLACES), (PLACES, ANIMALS)):
        for word in group:
            inside = [vectors.similarity(word, other) for other in group if other != word]
            outside = [vectors.similarity(word, other) for other in others]
            assert min(inside) > max(outside) + 0.1


def test_two_workers_learn_too(corpus):
    vectors = learn_word2vec(corpus, replace(SMALL, num_workers=2, epochs=30, learning_rate=0.1))
    assert vectors.similarity("cat", "dog") > vectors.similarity("cat", "rome") + 0.2


def test_work_is_done_once_each_and_watched():
    seen, told = [], []
    process_chunks(range(50), lambda piece: seen.append(piece) or 2, 3, told.append)
    assert sorted(seen) == list(range(50)) and told[-1] == 100
    process_chunks(range(50), lambda piece: seen.append(piece) or 1, 1, told.append)
    assert seen[50:] == list(range(50))  # one worker keeps the order


def test_an_error_in_a_worker_is_an_error():
    def do(piece):
        raise GlassformerError("no")

    with pytest.raises(GlassformerError, match="no"):
        process_chunks(range(3), do, 2, lambda _: None)


def test_ctrl_c_stops_and_leaves_nothing(story, tmp_path):
    out = tmp_path / "out" / "v.txt"
    out.parent.mkdir()
    command = [sys.executable, "-m", "glassformer", "vectors", str(story), "--out", str(out)]
    running = subprocess.Popen(
        [*command, "--epochs", "1000000"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    guard = threading.Timer(60, running.kill)
    guard.start()
    for line in running.stderr:
        if b"of them in the text" in line:
            break
    running.send_signal(signal.SIGINT)
    running.communicate()
    guard.cancel()
    assert running.returncode == 130
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"type": "bag"}, "type is skip-gram or cbow, not 'bag'"),
        ({"vector_size": 0}, "vector_size must be 1 or more, not 0"),
        ({"negative": -1}, "negative must be 0 or more"),
        ({"num_workers": 0}, "num_workers must be 1 or more"),
    ],
)
def test_settings_that_make_no_sense(given, said):
    with pytest.raises(GlassformerError, match=said):
        Word2Vec(**given)
