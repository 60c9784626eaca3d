"""Settings of tasks in config.json that no task can have: each is refused in a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from small_models import bert, word_tokenizer

import glassformer as gf
from glassformer.text import train as train_tokenizer

TEXT = "the cat sleeps here ."
WRONG: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "SequenceClassification": [
        ("classify", {"threshold": "high"}),
        ("classify", {"labels": 5}),
        ("classify", {"labels": ["a"]}),
    ],
    "TokenClassification": [
        ("tag", {"split": {"a": 1}}),
        ("tag", {"split": "lines"}),
        ("tag", {"length": "12"}),
        ("tag", {"length": -1}),
    ],
    "QuestionAnswering": [
        ("span", {"threshold": [0.5]}),
        ("span", {"threshold": "low"}),
        ("span", {"length": 2.5}),
    ],
    "decoder": [
        ("text2text", {"separator": 5}),
        ("text2text", {"separator": [10**9]}),
        ("text2text", {"separator": [True]}),
        ("text2text", {"separator": [5], "prefix": 5}),
        ("summarization", {"num_beams": {"a": 1}}),
    ],
}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return word_tokenizer(tmp_path_factory.mktemp("words"), TEXT)


@pytest.mark.parametrize(
    ("kind", "head", "settings"),
    [(kind, *case) for kind, cases in WRONG.items() for case in cases],
    ids=str,
)
def test_a_setting_that_no_task_can_have(words, kind, head, settings):
    if kind == "decoder":
        letters = train_tokenizer("char", texts=[TEXT])
        sizes = {"n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 64}
        model = gf.create("gpt2", tokenizer=letters, vocab_size=letters.size, **sizes)
        model.config["task_specific_params"] = {"text2text": {"separator": [1]}, head: settings}
    else:
        model = bert(words, kind)
        model.config["task_specific_params"] = {head: settings}
    use = {
        "classify": lambda: model.classify(TEXT),
        "tag": lambda: model.tag(TEXT),
        "span": lambda: model.answer(TEXT, TEXT),
    }.get(head, lambda: model.summarize(TEXT, max_new_tokens=2))
    with pytest.raises(gf.GlassformerError):
        use()
