"""The task functions: their keyword arguments, their types, and one or many texts."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import get_overloads

import pytest
from small_models import bert, word_tokenizer

from glassformer.generate.config import GenerationConfig
from glassformer.generate.options import GenerationOptions
from glassformer.tasks import answer, classify, embed, fill, summarize, tag, translate

FUNCTIONS = {
    "answer": (answer.answer, answer.Answerer, answer.AnswererOptions),
    "classify": (classify.classify, classify.Classifier, classify.ClassifyOptions),
    "embed": (embed.embed, embed.Embedder.of, embed.EmbedderOptions),
    "fill": (fill.fill, fill.filler, fill.FillerOptions),
    "summarize": (summarize.summarize, summarize.Summarizer, summarize.SummarizerOptions),
    "tag": (tag.tag, tag.Tagger, tag.TaggerOptions),
    "translate": (translate.translate, translate.Translator, translate.TranslatorOptions),
}
LISTS = {"tag": [["good", "film"], "bad film"]}


OF_FUNCTIONS = {"on_error", "to"}  # which the functions handle, not the tasks


def keywords(function):
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not one.empty}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_task_and_type_have_the_same_keywords(name):
    function, task, options = FUNCTIONS[name]
    own = keywords(function)
    of_task = {key: value for key, value in own.items() if key not in OF_FUNCTIONS}
    assert of_task.items() <= keywords(task).items()
    generation = options.__annotations__.keys() & GenerationOptions.__annotations__.keys()
    assert options.__annotations__.keys() - generation == own.keys() - generation
    assert len(get_overloads(function)) >= 2


def test_generation_options_are_the_fields_of_the_config():
    assert GenerationOptions.__annotations__.keys() == GenerationConfig.__dataclass_fields__.keys()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("classify", "SequenceClassification"),
        ("tag", "TokenClassification"),
        ("fill", "MaskedLM"),
    ],
)
def test_a_text_a_list_and_an_iterator(name, kind, tmp_path):
    model = bert(word_tokenizer(tmp_path, "good bad film"), kind)
    function = FUNCTIONS[name][0]
    text = "good ___" if name == "fill" else "good film"
    one = function(model, text)
    several = function(model, LISTS.get(name, [text, text]))
    assert isinstance(several, list) and [*map(type, several)] == [type(one)] * 2
    lazily = function(model, iter([text]))
    assert isinstance(lazily, Iterator) and [*map(type, lazily)] == [type(one)]
