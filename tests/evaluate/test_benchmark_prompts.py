"""Prompts of benchmarks equal the published ones; records without a prompt are reported."""

from __future__ import annotations

import pytest
import tiny_gpt2 as tiny

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.evaluate.lm_harness.benchmarks import BENCHMARKS
from glassformer.evaluate.lm_harness.requests import encode_request, truncate_request

CHOICES = {"label": ["A", "B"], "text": ["up", "down"]}
ALIKE = {
    "lambada": (
        {"text": "He said yes and she said no"},
        {"context": "He said yes and she said", "continuation": "no"},
    ),
    "piqa": (
        {"goal": "Boil tea?", "sol1": "up", "sol2": "down", "label": 1},
        {"query": "Question: Boil tea?\n", "choices": ["up", "down"], "gold": 1},
    ),
    "arc_easy": (
        {"question": "Which way?", "choices": CHOICES, "answerKey": "B"},
        {"query": "Question: Which way?", "choices": ["up", "down"], "gold": 1},
    ),
    "arc_challenge": (
        {"question": "Which way?", "choices": CHOICES, "answerKey": "A"},
        {
            "question": {
                "stem": "Which way?",
                "choices": [{"label": "A", "text": "up"}, {"label": "B", "text": "down"}],
            },
            "answerKey": "A",
        },
    ),
    "openbookqa": (
        {"question_stem": "It goes", "choices": CHOICES, "answerKey": "A"},
        {"query": "It goes", "choices": ["up", "down"], "gold": 0},
    ),
    "winogrande": (
        {"sentence": "Ada met Bo and _ left.", "option1": "Ada", "option2": "Bo", "answer": "2"},
        {
            "context_options": ["Ada met Bo and Ada", "Ada met Bo and Bo"],
            "continuation": "left.",
            "gold": 1,
        },
    ),
    "boolq": (
        {"passage": "It is.", "question": "is it", "label": 1},
        {"query": "Passage: It is.\nQuestion: is it?", "choices": ["no", "yes"], "gold": 1},
    ),
    "copa": (
        {
            "premise": "It fell.",
            "question": "cause",
            "choice1": "I hit it.",
            "choice2": "It flew.",
            "label": 0,
        },
        {"query": "It fell because", "choices": ["i hit it.", "it flew."], "gold": 0},
    ),
    "hellaswag": (
        {
            "activity_label": "Skiing",
            "ctx_a": "A man skis.",
            "ctx_b": "he",
            "endings": ["falls.", "sings."],
            "label": "1",
        },
        {"query": "Skiing: A man skis. He", "choices": ["falls.", "sings."], "gold": 1},
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_published_and_prepared_records_ask_the_same(name):
    one, other = (BENCHMARKS[name].ask(record) for record in ALIKE[name])
    assert one == other


def test_scenes_of_wikihow_are_cleaned():
    record = {
        "activity_label": "Home",
        "ctx_a": "How to clean [header] it [title] Begin.  Now [step] wash",
        "ctx_b": "",
        "endings": ["it [substeps] well.", "up."],
        "label": 0,
    }
    question = BENCHMARKS["hellaswag"].ask(record)
    assert question.contexts[0] == "Home: How to clean it. Begin. Now wash"
    assert question.choices == ("it well.", "up.")


@pytest.mark.parametrize(
    ("name", "record", "wrong"),
    [
        ("arc_easy", {"text": "x"}, "there is no query, a text, only text"),
        ("arc_easy", {"question": "x", "choices": CHOICES, "answerKey": "E"}, "one of the labels"),
        ("piqa", {"query": "x", "choices": ["a"], "gold": 0}, "a list of two or more texts"),
        ("piqa", {"query": "x", "choices": ["a", "b"], "gold": 2}, "no choice 2 of 2"),
        ("winogrande", {"sentence": "x", "option1": "a"}, "no _ where an option belongs"),
        ("copa", {"premise": "x.", "question": "why"}, '"cause" or "effect"'),
        ("lambada", {"text": "word"}, "others before it"),
    ],
)
def test_what_cannot_be_asked(name, record, wrong):
    with pytest.raises(GlassformerError, match=wrong):
        BENCHMARKS[name].ask(record)


@pytest.fixture(scope="module")
def tokenizer():
    return gf.Tokenizer.load(tiny.HARNESS / "tokenizer")


def test_spaces_that_end_a_context_go_to_the_continuation(tokenizer):
    one = encode_request(tokenizer, "The man said ", "yes")
    other = encode_request(tokenizer, "The man said", " yes")
    assert one == other
    assert tokenizer.decode(one.context) == "The man said"


def test_without_a_context_a_text_begins_with_its_first_token(tokenizer):
    end = tokenizer.special["bos"]
    assert encode_request(tokenizer, "", "The man").context == (end,)


def test_contexts_lose_their_beginning(tokenizer):
    request = encode_request(tokenizer, "The man said that the dog is", " here")
    cut = truncate_request(request, 4)
    assert cut.target == request.target
    assert len(cut.context + cut.target) == 5
    assert request.context[-len(cut.context) :] == cut.context
    with pytest.raises(GlassformerError, match="A continuation has"):
        truncate_request(encode_request(tokenizer, "The", " man said that the dog is"), 2)
