"""The tasks of a model, and the task settings in config.json."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from small_models import bert, word_tokenizer

import glassformer as gf
from glassformer.tasks.heads import fitting_verbs, require_head
from glassformer.tasks.model_protocol import longest
from glassformer.tasks.task_settings import keep, labels_of, settings_of


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return word_tokenizer(tmp_path_factory.mktemp("words"), "good bad", model_max_length=32)


@pytest.mark.parametrize(
    ("kind", "verbs"),
    [
        ("SequenceClassification", ["classify"]),
        ("TokenClassification", ["tag"]),
        ("QuestionAnswering", ["answer"]),
        ("MaskedLM", ["fill"]),
        ("MultipleChoice", ["evaluate"]),
    ],
)
def test_the_message_names_the_verb_that_fits(tokenizer, kind, verbs):
    model = bert(tokenizer, kind)
    assert fitting_verbs(model) == verbs
    if verbs == ["classify"]:
        assert require_head(model, "classify", "classify").num_outputs == 2
        return
    said = f"classify needs a head for whole texts, and BertFor{kind} has none; it is a model to "
    with pytest.raises(gf.GlassformerError, match=re.escape(said + " or ".join(verbs) + " with")):
        require_head(model, "classify", "classify")


def test_writers_fit_verbs_that_write():
    assert fitting_verbs(gf.load("shakespeare")) == ["generate"]
    sizes = {"d_model": 8, "num_heads": 2, "d_kv": 4, "d_ff": 8, "vocab_size": 20, "num_layers": 1}
    assert fitting_verbs(gf.create("t5-small", **sizes)) == ["summarize", "translate"]
    learned = gf.load("shakespeare")
    keep(learned, "text2text", separator=[1])  # as `continuation` does
    assert fitting_verbs(learned) == ["generate", "summarize", "translate"]
    with pytest.raises(gf.GlassformerError, match="to generate, summarize or translate with"):
        learned.tag("To be")


def test_who_listens_transcribes():
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 51865}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    assert fitting_verbs(gf.create("whisper-tiny", **sizes, **heads)) == ["generate", "transcribe"]


@pytest.mark.parametrize("verb", ["classify", "tag", "fill", "embed"])
def test_what_is_no_text_and_no_list_is_named(tokenizer, verb):
    kinds = {"tag": "TokenClassification", "fill": "MaskedLM"}
    model = bert(tokenizer, kinds.get(verb, "SequenceClassification"))
    with pytest.raises(gf.GlassformerError, match="Give a text, or a list or an iterator, not int"):
        getattr(model, verb)(5)


def test_several_heads_are_told_apart_by_their_names(tokenizer):
    spec = bert(tokenizer).spec
    (head,) = spec.heads
    heads = (replace(head, name="topic", num_outputs=3), replace(head, name="mood"))
    model = gf.create(replace(spec, heads=heads), tokenizer=tokenizer)
    assert require_head(model, "classify", "classify", "topic").num_outputs == 3
    with pytest.raises(gf.GlassformerError, match=r"Name the head.*topic, mood"):
        require_head(model, "classify", "classify")
    with pytest.raises(gf.GlassformerError, match="no head 'x' to classify with, only topic, mood"):
        require_head(model, "classify", "classify", "x")
    keep(model, "topic", labels=["war", "peace", "art"])
    assert labels_of(model, heads[0]) == ("war", "peace", "art")
    assert labels_of(model, heads[1]) == ("bad", "good")
    keep(model, "topic", labels=None)
    with pytest.raises(gf.GlassformerError, match=r"'topic'.*has 3 outputs.*names other labels"):
        labels_of(model, heads[0])


def test_settings_travel(tokenizer, tmp_path):
    model = bert(tokenizer)
    keep(model, "classify", threshold=0.4, other=None)
    model.save(tmp_path / "saved")
    assert settings_of(gf.load(tmp_path / "saved"), "classify") == {"threshold": 0.4}
    model.config["task_specific_params"] = {"classify": 3}
    with pytest.raises(gf.GlassformerError, match=r"task_specific_params.classify the value 3"):
        settings_of(model, "classify")


def test_how_long_a_text_may_be(tokenizer):
    model = bert(tokenizer)
    assert (longest(model), longest(model, 48), longest(model, 8)) == (32, 48, 8)
    with pytest.raises(gf.GlassformerError, match="65 tokens exceeds the model's 64 positions"):
        longest(model, 65)


def test_how_long_a_text_may_be_with_rotary_positions(tmp_path):
    words = word_tokenizer(tmp_path, "good bad")  # which says nothing of a length
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = gf.create(
        "modernbert-base",
        tokenizer=words,
        architectures=["ModernBertForSequenceClassification"],
        vocab_size=words.size,
        intermediate_size=64,
        max_position_embeddings=16,
        pad_token_id=0,
        **sizes,
    )
    assert longest(model) == 16
    with pytest.raises(gf.GlassformerError, match="17 tokens exceeds the model's 16 positions"):
        longest(model, 17)
    long = model.classify("good bad " * 20)
    assert (long.cut, long.probabilities) == (26, model.classify("good bad " * 7).probabilities)


def test_the_tokens_of_an_adapter_take_positions(tokenizer):
    model = bert(tokenizer)
    model.adapters.add(gf.adapters.Prompt(num_virtual_tokens=40))
    assert longest(model) == 24
