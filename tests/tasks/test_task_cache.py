"""Task objects are kept between calls, and dropped when the model changes."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest
from small_models import bert, word_tokenizer

import glassformer as gf
from glassformer.tasks.classify import Classifier
from glassformer.tasks.pooling import Pooling
from glassformer.tasks.task_cache import SIZE, TaskCache, cached_task
from glassformer.tasks.task_settings import keep


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return word_tokenizer(tmp_path_factory.mktemp("words"), "good bad", model_max_length=32)


@pytest.fixture
def model(tokenizer):
    return bert(tokenizer)


def classifier(model, **options):
    return cached_task(model, Classifier, **options)


def test_the_same_options_give_the_same_task(model):
    task = classifier(model, threshold={"good": 0.5})
    assert classifier(model, threshold={"good": 0.5}) is task
    assert classifier(model, threshold={"good": 0.6}) is not task
    assert classifier(model, threshold={"good": 0.5}) is task


def test_a_changed_list_or_dict_is_another_option(model):
    threshold = {"good": 0.5}
    task = classifier(model, threshold=threshold)
    threshold["good"] = 0.9
    assert classifier(model, threshold=threshold).thresholds == [0.0, 0.9]
    assert task.thresholds == [0.0, 0.5]


def test_an_option_of_another_type_is_checked(model):
    classifier(model, threshold=1)
    with pytest.raises(gf.GlassformerError, match="number from 0 to 1, not True"):
        classifier(model, threshold=True)


CHANGES = {
    "settings": lambda model: keep(model, "classify", threshold=0.4),
    "config": lambda model: model.config.update(problem_type="multi_label_classification"),
    "pooling": lambda model: setattr(model, "pooling", Pooling(modes=("first",))),
    "adapter": lambda model: model.adapters.add(gf.adapters.Prompt(num_virtual_tokens=40)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_drops_its_tasks(model, change):
    task = classifier(model)
    assert classifier(model) is task
    CHANGES[change](model)
    assert classifier(model) is not task


def test_settings_act_on_the_next_call(model):
    assert model.classify("good").labels
    keep(model, "classify", threshold=1.0)
    assert model.classify("good").labels == ()
    keep(model, "classify", threshold=None, labels=["no", "yes"])
    assert set(model.classify("good").probabilities) == {"no", "yes"}


def test_few_tasks_are_kept(model):
    tasks = [classifier(model, threshold=number / 100) for number in range(SIZE + 1)]
    assert classifier(model, threshold=SIZE / 100) is tasks[SIZE]
    assert classifier(model, threshold=0.0) is not tasks[0]


def test_a_model_with_tasks_is_freed_at_once(tokenizer):
    model = bert(tokenizer)
    model.classify("good")
    results = model.classify(iter(["good", "bad"]))
    there = weakref.ref(model)
    gc.disable()
    try:
        del model
        assert len(list(results)) == 2  # the iterator needs it
        del results
        assert there() is None
    finally:
        gc.enable()


def test_tasks_are_not_copied(model):
    task = classifier(model)
    copied = copy.deepcopy(model)
    assert classifier(copied) is not task
    assert isinstance(pickle.loads(pickle.dumps(TaskCache())), TaskCache)
