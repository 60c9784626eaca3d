"""Neighbors, analogies and similarities, computed by hand for a few words."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.text.training.train import train as train_tokenizer
from glassformer.train.reporter import Reporter
from glassformer.word_vectors import (
    Vectors,
    analogies,
    similarities,
    start_embedding,
    write_vectors,
)
from glassformer.word_vectors.evaluate import ranks

# royal, male, female, fruit; lengths differ so that only angles can be right
ROWS = {
    "king": [3, 3, 0, 0],
    "man": [0, 1, 0, 0],
    "woman": [0, 0, 2, 0],
    "Queen": [1, 0, 1, 0],
    "queen": [0.9, 0, 1, 0.4],
    "apple": [0, 0, 0, 1],
    "MAN": [0.1, 1, 0.2, 0],
}


@pytest.fixture
def space():
    return Vectors(list(ROWS), np.array(list(ROWS.values()), np.float32))


def test_nearest_by_angle(space):
    (first, cosine), (second, _) = space.nearest("king", 2)
    assert (first, second) == ("MAN", "man")
    assert cosine == pytest.approx(1.1 / math.sqrt(2 * 1.05))
    assert len(space.nearest("king", 99)) == 6
    assert space.similarity("Queen", "king") == pytest.approx(0.5)


def test_analogy_by_sums_of_unit_vectors(space):
    """king - man + woman = (r/2, r/2 - 1, 1, 0) with r the square root of 2."""
    goal = np.array([math.sqrt(0.5), math.sqrt(0.5) - 1, 1, 0])
    (word, cosine), *_ = space.analogy("man", "king", "woman")
    assert word == "Queen"
    wanted = goal @ [1, 0, 1, 0] / np.linalg.norm(goal) / math.sqrt(2)
    assert cosine == pytest.approx(wanted, abs=1e-6)
    others = {word for word, _ in space.analogy("man", "king", "woman")}
    assert others == {"Queen", "queen", "apple", "MAN"}


def test_an_unknown_word_and_the_nearest_name(space):
    with pytest.raises(GlassformerError, match=r"'kings' is not among the 7 words; did you mean"):
        space.nearest("kings")


def test_analogies_of_a_file(space, tmp_path):
    """Case makes no difference: MAN is no answer where man is asked, Queen and queen are one."""
    path = tmp_path / "questions.txt"
    path.write_text(
        ": family\nMan King Woman QUEEN\nman king woman apple\nman king boy queen\n"
        ": fruit\napple apple man King\n"
    )
    family, fruit, total = analogies(space, path)
    assert (family.name, family.right, family.asked, family.unknown) == ("family", 1, 2, 1)
    assert family.accuracy == 0.5
    assert (fruit.right, fruit.asked) == (1, 1)  # the nearest to man that is not MAN
    assert (total.name, total.right, total.asked, total.unknown) == ("total", 2, 3, 1)
    assert analogies(space, path, limit=3)[-1].asked == 0  # Queen is not among the first three


def test_similarities_of_a_file(space, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("# words\nking\tqueen\t7\nMan\tking\t8\nman\tapple\t0.5\nman\tboy\t9\n")
    found = similarities(space, path)
    assert (found.pairs, found.unknown) == (3, 1)
    assert found.spearman == pytest.approx(1.0)
    ours, theirs = np.array([0.5, math.sqrt(0.5), 0]), np.array([7, 8, 0.5])
    assert found.pearson == pytest.approx(np.corrcoef(ours, theirs)[0, 1], abs=1e-6)
    path.write_text("king\tqueen\t7\nking\tman\n")
    with pytest.raises(GlassformerError, match=r"pairs.tsv:2 is not two words and a number"):
        similarities(space, path)


def test_equal_values_share_their_ranks():
    assert ranks(np.array([3.0, 1.0, 3.0, 9.0, 3.0])).tolist() == [3, 1, 3, 5, 3]


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the king and the Apple\n" * 3)
    tokenizer = train_tokenizer("word", path, 100)
    return gf.create("gpt2", n_layer=1, n_head=1, n_embd=4, vocab_size=100, tokenizer=tokenizer)


def test_rows_of_a_model_start_from_vectors(space, model):
    before = model.decoder.embed.token.weight.detach().clone()
    assert start_embedding(model, space) == 2
    after = model.decoder.embed.token.weight.detach()
    king, apple = (model.tokenizer.id(word) for word in ("king", "Apple"))
    assert after[king].tolist() == ROWS["king"]
    assert after[apple].tolist() == ROWS["apple"]  # in small letters
    before[[king, apple]] = after[[king, apple]]
    assert torch.equal(before, after)


def test_a_width_that_does_not_fit(space, model):
    with pytest.raises(GlassformerError, match=r"vectors have 3 numbers, .* table 4"):
        start_embedding(model, Vectors(space.words, space.table[:, :3]))


def test_a_table_that_encoder_and_decoder_share_is_started_once(space, model):
    sizes = {"d_model": 4, "d_kv": 4, "d_ff": 4, "num_layers": 1, "num_heads": 1, "vocab_size": 100}
    both = gf.create("t5-small", tokenizer=model.tokenizer, **sizes)
    assert start_embedding(both, space) == 2
    king = model.tokenizer.id("king")
    for stack in (both.encoder, both.decoder):
        assert stack.embed.token.weight[king].tolist() == ROWS["king"]


def test_models_without_words(space):
    with pytest.raises(GlassformerError, match="no tokenizer"):
        start_embedding(gf.create("gpt2", n_layer=1, n_head=1, n_embd=4, vocab_size=9), space)


def test_a_recipe_starts_from_vectors(space, tmp_path):
    class Heard(Reporter):
        def note(self, text):
            heard.append(text)

    heard = []
    text, file = tmp_path / "text.txt", tmp_path / "space.txt"
    text.write_text("the king and the Apple\n" * 9)
    write_vectors(file, space)
    recipe = {
        "model": {
            "preset": "gpt2",
            "num_layers": 1,
            "num_heads": 1,
            "hidden_size": 4,
            "context_length": 8,
        },
        "tokenizer": {"type": "word"},
        "data": {"format": "text", "train": str(text)},
        "objective": {"name": "causal-lm"},
        "train": {"max_steps": 1, "batch_size": 1, "learning_rate": 1e-9},
        "run": {"out": str(tmp_path / "run")},
    }
    recipe["model"]["word_vectors"] = str(file)
    trained = gf.load(gf.train(recipe, reporters=[Heard()]).model)
    assert heard[0] == f"2 rows of the token table start from {file}"
    row = trained.decoder.embed.token.weight[trained.tokenizer.id("king")]
    assert row.tolist() == pytest.approx(ROWS["king"], abs=1e-6)
