"""classify, compared with the reference's pipeline: labels, thresholds, texts that are too long."""

from __future__ import annotations

import itertools
import json

import pytest
import transformers
from small_models import REVIEWS, UNSEEN, bert, reviews, train_classifier, word_tokenizer

import glassformer as gf
from glassformer.tasks.task_settings import keep

TOPICS = {
    "Heavy rain is expected.": ["weather"],
    "Snow and wind came in the evening.": ["weather"],
    "The storm was near.": ["weather"],
    "There was rain, wind and snow.": ["weather"],
    "The old bridge was repaired in spring.": ["building"],
    "A new roof for the town hall.": ["building"],
    "The bridge and the hall are closed.": ["building"],
    "The roof was old.": ["building"],
    "The choir sang in the evening.": ["music"],
    "The band played new songs.": ["music"],
    "A concert of the choir and the band.": ["music"],
    "The old songs were played in spring.": ["music"],
    "The storm damaged the roof of the hall.": ["weather", "building"],
    "Snow and wind closed the bridge.": ["weather", "building"],
    "Rain came through the roof during the concert.": ["weather", "building", "music"],
    "The band sang in the rain.": ["weather", "music"],
    "Nothing happened in the evening.": [],
    "It was there in spring.": [],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return train_classifier(tmp_path_factory.mktemp("reviews"), reviews())


@pytest.fixture(scope="module")
def model(folder):
    return gf.load(folder)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    rows = [{"text": text, "labels": labels} for text, labels in TOPICS.items()]
    return train_classifier(tmp_path_factory.mktemp("topics"), rows, steps=220, multi_label=True)


def pipeline(folder, **options):
    return transformers.pipeline("text-classification", model=str(folder), top_k=None, **options)


def by_label(rows):
    return {row["label"]: row["score"] for row in rows}


def test_it_has_learned_what_a_review_says(model):
    assert [model.classify(text).label for text in UNSEEN] == list(UNSEEN.values())
    assert all(one.probability > 0.7 for one in model.classify(list(UNSEEN)))


def test_probabilities_are_the_pipelines(folder, model):
    texts = [*itertools.chain(*REVIEWS.values()), *UNSEEN]
    for found, wanted in zip(model.classify(texts), pipeline(folder)(texts), strict=True):
        assert found.probabilities == pytest.approx(by_label(wanted), abs=1e-5)
        assert (found.label, found.labels) == (wanted[0]["label"], (wanted[0]["label"],))


def test_pairs(folder, model):
    pair = ("A dull film.", "The score is wonderful, and we loved the cast.")
    wanted = pipeline(folder)([{"text": pair[0], "text_pair": pair[1]}])[0]
    assert model.classify(pair).probabilities == pytest.approx(by_label(wanted), abs=1e-5)
    alone, in_batch = model.classify(pair), model.classify([pair, pair[0]])[0]
    assert in_batch.probabilities == pytest.approx(alone.probabilities, abs=1e-5)


def test_several_labels(several):
    model = gf.load(several)
    texts = list(TOPICS)
    found = model.classify(texts)
    assert [sorted(one.labels) for one in found] == [sorted(labels) for labels in TOPICS.values()]
    for one, wanted in zip(found, pipeline(several)(texts), strict=True):
        assert one.probabilities == pytest.approx(by_label(wanted), abs=1e-5)
        assert [one.probabilities[name] for name in one.labels] == sorted(
            (one.probabilities[name] for name in one.labels), reverse=True
        )


def test_thresholds_travel_with_the_model(several, tmp_path):
    model = gf.load(several)
    text = next(iter(TOPICS))
    probs = model.classify(text).probabilities
    keep(model, "classify", threshold={"building": 0.9999, "weather": 0.0})
    model.save(tmp_path / "kept")
    again = gf.load(tmp_path / "kept").classify(text)
    assert again.labels == ("weather",) and again.probabilities == pytest.approx(probs)
    assert set(gf.load(tmp_path / "kept").classify(text, threshold=0.0).labels) == set(probs)
    wanted = pipeline(tmp_path / "kept")([text])[0]  # the reference reads the folder all the same
    assert by_label(wanted) == pytest.approx(probs, abs=1e-5)


def test_one_label_that_is_not_sure_enough_is_none(model):
    one = model.classify("A wonderful story.", threshold=1.0)
    assert (one.label, one.labels) == (None, ()) and one.probability == max(
        one.probabilities.values()
    )
    assert one.record()["label"] is None


def test_what_is_too_long_is_cut_and_said(folder, model):
    text = "A moving film. " * 30
    wanted = pipeline(folder)([text], truncation=True)[0]  # the length travels with the model
    found = model.classify(text)
    assert found.probabilities == pytest.approx(by_label(wanted), abs=1e-5)
    assert found.cut == len(model.tokenizer.encode(text)) - 32
    assert model.classify("A film.").cut == 0
    with pytest.raises(gf.GlassformerError, match="The text has 122 tokens, and the model can"):
        model.classify(text, too_long="refuse")
    with pytest.raises(gf.GlassformerError, match='"truncate" or "refuse", not \'no\''):
        model.classify(text, too_long="no")


def test_the_tokenizer_says_which_side_is_cut(tmp_path):
    tokenizer = word_tokenizer(tmp_path, "good bad", truncation_side="left", model_max_length=4)
    model = bert(tokenizer)
    text = "bad bad bad good good"
    assert model.classify(text).probabilities == model.classify("good good").probabilities


def test_one_gives_one_a_list_a_list_and_an_iterator_what_comes(model):
    texts = list(UNSEEN)
    assert model.classify(texts[0]).label == "good"
    assert isinstance(model.classify(texts), list) and model.classify([]) == []
    taken = itertools.count()
    endless = (texts[next(taken) % len(texts)] for _ in itertools.count())
    results = model.classify(endless)
    assert [next(results).label for _ in range(600)][-1] == list(UNSEEN.values())[599 % 6]
    assert next(taken) <= 1024  # two pools


@pytest.mark.parametrize("text", ["", " \n", ("", " ")])
def test_an_empty_text(model, text):
    with pytest.raises(gf.GlassformerError, match="The text is empty"):
        model.classify(text)


def test_bad_texts_and_thresholds(model):
    with pytest.raises(gf.GlassformerError, match="must be a str"):
        model.classify(["good", 5])
    with pytest.raises(gf.GlassformerError, match="half a character"):
        model.classify("a \ud800 b")
    with pytest.raises(
        gf.GlassformerError, match=r"label 'fine', which the model does .*are bad, good"
    ):
        model.classify("good", threshold={"fine": 0.5})
    for wrong in (1.5, "high", True):
        with pytest.raises(gf.GlassformerError, match="a number from 0 to 1, not"):
            model.classify("good", threshold=wrong)


def test_heads_of_another_kind(tmp_path):
    tokenizer = word_tokenizer(tmp_path, "good bad")
    with pytest.raises(gf.GlassformerError, match=r"classify needs .* a model to tag with"):
        bert(tokenizer, "TokenClassification").classify("good")
    model = bert(tokenizer, problem_type="regression")
    with pytest.raises(gf.GlassformerError, match="problem_type is 'regression'"):
        model.classify("good")


def test_one_body_with_several_heads_each_used_by_its_name(tmp_path):
    mood = [{**row, "objective": "classification"} for row in reviews()]
    kind = [
        {
            "text": text,
            "label": "song" if "score" in text else "play",
            "objective": "classification-2",
        }
        for text in itertools.chain(*REVIEWS.values())
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in mood + kind))
    sizes = {
        "num_layers": 1,
        "num_heads": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "context_length": 32,
        "dropout": 0.0,
    }
    run = gf.train(
        {
            "model": {"preset": "bert-base", "architecture": "BertModel", **sizes},
            "tokenizer": {"type": "wordpiece", "vocab_size": 400, "lowercase": True},
            "data": {"format": "jsonl", "train": [str(tmp_path / "train.jsonl")], "num_workers": 1},
            "objective": [
                {"name": "classification", "head": "mood", "labels": ["bad", "good"]},
                {"name": "classification", "head": "kind", "labels": ["play", "song"]},
            ],
            "train": {"max_steps": 80, "batch_size": 40, "learning_rate": 5e-3, "warmup_steps": 5},
            "run": {"out": str(tmp_path / "run"), "tensorboard": False},
        }
    )
    model = gf.load(run.model)
    text = "Awful acting and an ugly score."
    assert model.classify(text, head="mood").label == "bad"
    assert model.classify(text, head="kind").label == "song"
    with pytest.raises(gf.GlassformerError, match="the model has mood, kind"):
        model.classify(text)
