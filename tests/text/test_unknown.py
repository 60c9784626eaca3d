"""Every verb reports the share of a text that is not in the vocabulary."""

from __future__ import annotations

import json
import warnings

import pytest

import glassformer as gf
from glassformer.errors import UnknownTextWarning

BILL = "我们明天要付水费单。ok"  # ten characters that the zoo's encoders lack, and one known token


@pytest.fixture(scope="module")
def reader():
    return gf.load("zoo:reader")


def warned(call, *args, **options):
    with pytest.warns(UnknownTextWarning, match="unknown to the model's vocabulary"):
        return call(*args, **options)


def silent(call, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call(*args, **options)


def test_the_share_is_one_of_characters(reader):
    tokenizer = reader.tokenizer
    assert tokenizer.unknown_ratio(BILL) == pytest.approx(10 / 12)
    assert tokenizer.unknown_ratio("Where is my naïve café?") == 0
    assert tokenizer.unknown_ratio("") == 0
    assert gf.load("zoo:letters").tokenizer.unknown_ratio("我们x") == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", ["translator", "stories", "shakespeare"])
def test_characters_of_which_only_bytes_are_known(name):
    tokenizer = gf.load(f"zoo:{name}").tokenizer
    assert tokenizer.unknown_ratio("abሰላም") >= 0.5
    assert tokenizer.unknown_ratio("Where is the garden?") == 0
    assert name != "translator" or tokenizer.unknown_ratio("我爱你。") == 0


def test_verbs_that_read(reader):
    encoder = gf.load("zoo:encoder")
    found = warned(reader.classify, BILL, head="topic")
    assert found.unknown_ratio == found.record()["unknown_ratio"] == pytest.approx(10 / 12)
    assert silent(reader.classify, "pay my bill", head="topic").unknown_ratio == 0
    assert warned(reader.tag, BILL).unknown_ratio == pytest.approx(10 / 12)
    assert silent(reader.tag, "Ada lived in London.").record()["unknown_ratio"] == 0
    assert warned(encoder.fill, "我们明天___水费").unknown_ratio == 1
    assert silent(encoder.fill, "The ___ is blue.").record()["unknown_ratio"] == 0
    warned(encoder.embed, BILL)
    silent(encoder.embed, "A dog barks.")


def test_verbs_that_write():
    translator, stories = gf.load("zoo:translator"), gf.load("zoo:stories")
    options = {"source_language": "fr", "target_language": "en", "max_new_tokens": 2}
    found = warned(translator.translate, "ሰላም ጓደኛ", **options)
    assert found.unknown_ratio == found.record()["unknown_ratio"] > 0.8
    assert silent(translator.translate, "Bonjour.", **options).unknown_ratio == 0
    found = warned(translator.summarize, "ሰላም ጓደኛ", max_new_tokens=2)
    assert found.record()["unknown_ratio"] > 0.8
    outputs = warned(stories.generate, ["ሰላም ጓደኛ", "Once upon"], max_new_tokens=2)
    assert [one.record()["unknown_ratio"] > 0.5 for one in outputs] == [True, False]
    assert warned(stories.score, "ሰላም ጓደኛ").unknown_ratio > 0.5
    assert silent(stories.score, "The cat sat.").unknown_ratio == 0
    found = warned(translator.score, "Bonjour.", "ሰላም ጓደኛ")
    assert found.unknown_ratio > 0.8


def test_an_answer_says_it_of_question_and_context(tmp_path):
    import transformers

    gf.load("zoo:reader").tokenizer.save(tmp_path)
    config = transformers.BertConfig(
        vocab_size=gf.load("zoo:reader").tokenizer.size, hidden_size=8, num_hidden_layers=1,
        num_attention_heads=1, intermediate_size=8,
    )  # fmt: skip
    transformers.BertForQuestionAnswering(config).save_pretrained(tmp_path)
    model = gf.load(tmp_path)
    assert warned(model.answer, "谁要付水费？", "Ada pays the bill.").unknown_ratio == 1
    assert warned(model.answer, "Who pays?", "我们明天要付水费单。").record()["unknown_ratio"] == 1
    assert silent(model.answer, "Who pays?", "Ada pays.").unknown_ratio == 0


def test_the_command_line_says_it_once_on_standard_error(glassformer, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text(f"{BILL}\npay my bill\n{BILL} again\n", "utf-8")
    words = ("classify", "zoo:reader", "--file", str(file), "--head", "topic")
    code, shown, said = glassformer(*words, "--json")
    ratios = [json.loads(line)["unknown_ratio"] for line in shown.splitlines()]
    assert [ratio > 1 / 3 for ratio in ratios] == [True, False, True]
    assert code == 0
    assert said.count("unknown to the model's vocabulary") == 1
    code, shown, said = glassformer("embed", "zoo:encoder", BILL, "--json")
    assert json.loads(shown)["unknown_ratio"] > 0.8
    assert "unknown to the model's vocabulary" in said
    _, _, said = glassformer("classify", "zoo:reader", "pay my bill", "--head", "topic")
    assert said == ""
