"""Masked language modeling: the masks and the loss."""

from __future__ import annotations

import material
import numpy as np
import pytest
import torch

from glassformer.errors import GlassformerError
from glassformer.text import train
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.rows import RaggedColumn
from glassformer.train.objectives.whole_words import Vocabulary

BERT = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 300,
        "intermediate_size": 48, "max_position_embeddings": 80}  # fmt: skip
ROBERTA = {**BERT, "max_position_embeddings": 82, "pad_token_id": 1}
MODELS = {
    "bert": lambda: material.model("bert-base", material.wordpiece(), "BertForMaskedLM", **BERT),
    "roberta": lambda: material.model(
        "roberta-base", material.bytelevel(), "RobertaForMaskedLM", **ROBERTA
    ),
    "albert": lambda: material.model(
        "albert-base", material.pieces(), "AlbertForMaskedLM", **{**BERT, "embedding_size": 16}
    ),
}
KINDS = {
    "wordpiece": material.wordpiece,
    "byte-level": material.bytelevel,
    "sentencepiece": material.pieces,
    "characters": lambda: train(
        "char", texts=material.SENTENCES, vocab_size=80, special_tokens=material.BERT_ROLES
    ),
}


def row_of(tokens):
    return RaggedColumn(tokens, np.array([len(tokens)]))


def stored(objective, text=material.TEXT):
    return list(objective.prepare({"text": text}))


def by_hand(model, example):
    """Each document of a row alone, and each of its targets."""
    losses = []
    documents = example.get("documents", np.zeros(len(example["tokens"])))
    for document in np.unique(documents):
        tokens, targets = (example[f][documents == document] for f in ("tokens", "targets"))
        logits = model(material.ids(tokens)).logits[0]
        losses += [
            material.surprise(logits[place], target)
            for place, target in enumerate(targets)
            if target >= 0
        ]
    return {"lm": losses}


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient(name):
    model = MODELS[name]()
    objective = make_objective("masked-lm", model, {"max_length": 31})
    examples = stored(objective)
    assert len(examples) > 3 and len({len(e["tokens"]) for e in examples}) == 2
    material.check_gradients(objective, model, examples, by_hand)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_the_gradient_of_packed_texts(name):
    model = MODELS[name]()
    objective = make_objective("masked-lm", model, {"mlm_probability": 0.4, "max_length": 21})
    texts = [example["tokens"] for example in stored(objective)]
    rows = [
        {
            "tokens": np.concatenate(some),
            "documents": np.repeat(np.arange(len(some)), [len(text) for text in some]),
        }
        for some in (texts[:3], texts[3:5])
    ]
    material.check_gradients(objective, model, rows, by_hand)


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_falls(name):
    model = MODELS[name]()
    objective = make_objective("masked-lm", model, {})
    first, last = material.falls(objective, model, stored(objective))
    assert last < 0.9 * first


@pytest.mark.parametrize("whole_words", [False, True])
def test_the_shares(whole_words):
    """Of a long text, drawn often: 15%, of which 80/10/10."""
    model = MODELS["bert"]()
    objective = make_objective("masked-lm", model, {"whole_word_mask": whole_words})
    special = model.tokenizer.special
    frame = {special["cls"], special["sep"]}
    tokens = np.concatenate([example["tokens"] for example in stored(objective)] * 5)
    asked = masked = kept = total = 0
    for seed in range(60):
        shown, targets = objective.masking(row_of(tokens), material.draws(seed))
        chosen = targets >= 0
        assert (targets[chosen] == tokens[chosen]).all()
        assert (shown[~chosen] == tokens[~chosen]).all()
        assert not set(tokens[chosen]) & frame
        assert not set(shown[chosen & (shown != special["mask"])]) & model.tokenizer.special_ids
        asked += chosen.sum()
        masked += (shown == special["mask"]).sum()
        kept += (chosen & (shown == tokens)).sum()
        total += (~np.isin(tokens, list(frame))).sum()
    assert asked / total == pytest.approx(0.15, abs=0.003)
    assert masked / asked == pytest.approx(0.8, abs=0.015)
    assert kept / asked == pytest.approx(0.1, abs=0.012)  # and any token may be itself


@pytest.mark.parametrize("kind", KINDS)
def test_whole_words_are_never_cut(kind):
    """Words as the text has them, by where tokens stand in it."""
    tokenizer = KINDS[kind]()
    encoded = tokenizer.encode(material.TEXT)
    tokens, text = np.array(encoded.ids), material.TEXT
    starts = Vocabulary(tokenizer).starts(row_of(tokens))
    for place, (first, last) in enumerate(encoded.offsets):
        if encoded.special_mask[place] or not text[first:last].strip():
            assert starts[place]
            continue
        letter = first + len(text[first:last]) - len(text[first:last].lstrip())
        inside = text[letter - 1].isalpha() and text[letter].isalpha() if letter else False
        if inside:
            assert not starts[place], (encoded.tokens[place], text[first - 5 : last])
        elif text[letter].isalpha() and text[max(letter - 1, 0)].isspace():
            assert starts[place], (encoded.tokens[place], text[first - 5 : last])
    from glassformer.train.objectives.masking import Masking, Masks

    masking = Masking(tokenizer, Masks(mlm_probability=0.3, whole_word_mask=True))
    word = np.cumsum(starts)
    for seed in range(20):
        _, targets = masking(row_of(tokens), material.draws(seed))
        hidden = set(word[targets >= 0])
        assert hidden and all((targets[word == one] >= 0).all() for one in hidden)


def test_marks_at_the_end_of_words():
    """GPT's and XLM's byte pairs end a word; those of CTRL say that it goes on."""
    from tokenizers import Tokenizer as Backend
    from tokenizers.models import WordLevel

    from glassformer.text import Tokenizer
    from glassformer.text.backend import LibraryBackend
    from glassformer.text.loading.tokenizer_config import TokenizerConfig

    for tokens in (
        ["un", "like", "ly</w>", "bird</w>", ".</w>"],
        ["un@@", "like@@", "ly", "bird", "."],
    ):
        backend = Backend(WordLevel({token: i for i, token in enumerate(tokens)}, "."))
        vocabulary = Vocabulary(Tokenizer(LibraryBackend(backend), TokenizerConfig({})))
        starts = vocabulary.starts(row_of(np.array([0, 1, 2, 3, 4, 3])))
        assert starts.tolist() == [True, False, False, True, True, True]


def test_fixed_and_fresh_masks():
    model = MODELS["bert"]()
    (example,) = stored(make_objective("masked-lm", model, {}), material.SENTENCES[0])

    def masks(static: int) -> set[bytes]:
        objective = make_objective("masked-lm", model, {"num_static_masks": static})
        drawn = (material.vary(objective, example, seed) for seed in range(60))
        return {row["targets"].tobytes() + row["tokens"].tobytes() for row in drawn}

    assert len(masks(0)) > 55
    assert len(masks(1)) == 1
    assert len(masks(4)) == 4


def test_the_same_draw_gives_the_same_mask_and_nothing_is_changed_in_place():
    model = MODELS["bert"]()
    objective = make_objective("masked-lm", model, {})
    (example,) = stored(objective, material.SENTENCES[0])
    example["tokens"].setflags(write=False)  # as mapped from a file
    one, two, other = (material.vary(objective, example, s) for s in (1, 1, 2))
    assert all((one[field] == two[field]).all() for field in one)
    assert (one["targets"] != other["targets"]).any()


def test_no_more_than_the_most_and_never_none():
    model = MODELS["bert"]()
    objective = make_objective("masked-lm", model, {"max_predictions": 3, "mlm_probability": 0.5})
    (example,) = stored(objective, material.SENTENCES[0])
    (short,) = stored(objective, "He")
    for seed in range(10):
        assert (material.vary(objective, example, seed)["targets"] >= 0).sum() == 3
        assert (material.vary(objective, short, seed)["targets"] >= 0).sum() >= 1


def test_texts_are_cut_to_pieces_that_are_framed():
    model = MODELS["bert"]()
    objective = make_objective("masked-lm", model, {"max_length": 20})
    pieces = [example["tokens"].tolist() for example in stored(objective)]
    special = model.tokenizer.special
    assert all(p[0] == special["cls"] and p[-1] == special["sep"] for p in pieces)
    assert max(map(len, pieces)) == 20
    whole = model.tokenizer.encode(material.TEXT, special=False).ids
    assert [token for piece in pieces for token in piece[1:-1]] == whole
    with pytest.raises(GlassformerError, match="the text is empty"):
        stored(objective, "")


def test_bad_settings_are_named():
    model = MODELS["bert"]()
    for options, match in (
        ({"mlm_probability": 1.5}, "probability = 1.5"),
        ({"mask_replace_prob": 0.9, "random_replace_prob": 0.2}, "random_replace_prob = 0.2"),
        ({"max_length": 500}, "80 positions"),
        ({"max_length": 2}, "no tokens for the text"),
        ({"whole_word": True}, "'whole_word_mask'"),
    ):
        with pytest.raises(GlassformerError, match=match):
            stored(make_objective("masked-lm", model, options))
    letters = material.model("bert-base", material.letters(), "BertForMaskedLM", **BERT)
    with pytest.raises(GlassformerError, match="no mask token"):
        make_objective("masked-lm", letters, {})
    with pytest.raises(GlassformerError, match="needs the head 'lm'"):
        make_objective("masked-lm", material.model("bert-base", material.wordpiece(), **BERT), {})
    with pytest.raises(GlassformerError, match="has no column 'text', only words"):
        list(make_objective("masked-lm", model, {}).prepare({"words": [], "where": "a.txt:3"}))
    small = material.model("bert-base", material.wordpiece(), "BertForMaskedLM",
                           **{**BERT, "vocab_size": 50})  # fmt: skip
    with pytest.raises(GlassformerError, match="the model's embedding 50"):
        make_objective("masked-lm", small, {})


def test_only_what_is_asked_for_meets_the_vocabulary():
    model = MODELS["bert"]()
    objective = make_objective("masked-lm", model, {})
    batch = objective.collate(material.varied(objective, stored(objective)))
    assert len(batch.targets["at"]) % 64 == 0 and batch.tokens == int(
        batch.inputs.get("attention_mask", torch.ones_like(batch.inputs["input_ids"])).sum()
    )
    flat = batch.inputs["input_ids"].flatten()
    real = batch.targets["tokens"] >= 0
    assert real.sum() == batch.counts["lm"]
    assert (flat[batch.targets["at"][real]] == model.tokenizer.special["mask"]).float().mean() > 0.5
