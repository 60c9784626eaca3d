"""The recipe of a task on a file: columns, labels, head and settings."""

from __future__ import annotations

import csv
import json

import pytest

import glassformer as gf
from glassformer.tasks.registry import TASKS
from glassformer.tasks.task_words import SYNONYMS, find_task, verb_of
from glassformer.train.objectives.registry import objective_names, objective_of
from glassformer.train.recipe import read_recipe
from glassformer.train.task_labels import kind_of_labels
from glassformer.train.task_model import BaseModel
from glassformer.train.task_recipe import TaskOptions, make_task_recipe
from glassformer.train.task_settings import Workload, train_settings


def table(path, rows, delimiter=","):
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return str(path)


def made(path, task="classify", **options):
    return make_task_recipe(task, [path], TaskOptions(**options))


ROWS = [(f"this is text {i}", ("good", "bad")[i % 2]) for i in range(20)]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (("text", "label"), {}),
        (("sentence", "Category"), {"text": "sentence", "label": "Category"}),
        (("words", "mood"), {"text": "words", "label": "mood"}),  # nothing else is possible
        (("a", "b"), {"text": "a", "label": "b"}),
    ],
)
def test_columns_are_found_by_name_or_because_no_others_are_left(tmp_path, header, columns):
    path = table(tmp_path / "my.csv", [("id", *header), *((i, *r) for i, r in enumerate(ROWS))])
    found = made(path)
    assert found.tables["data"].get("columns", {}) == columns
    read_recipe(found.tables)  # is a recipe


def test_columns_are_asked_for_where_several_are_possible(tmp_path):
    rows = [("one", "two", "three"), *((a, b, f"also {a}") for a, b in ROWS)]
    path = table(tmp_path / "my.csv", rows)
    with pytest.raises(gf.DataError, match="--text NAME --label NAME"):
        made(path)
    found = made(path, columns={"text": "three", "label": "two"})
    assert found.tables["data"]["columns"] == {"text": "three", "label": "two"}
    with pytest.raises(gf.DataError, match="did you mean 'three'"):
        made(path, columns={"text": "threee"})


def test_a_pair_of_sentences_is_recognized(tmp_path):
    rows = [("sentence1", "sentence2", "label"), *((a, f"{a}!", b) for a, b in ROWS)]
    found = made(table(tmp_path / "my.csv", rows)).tables["data"]["columns"]
    assert found == {"text": "sentence1", "pair": "sentence2"}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", "b"] * 5, "one"),
        (["a", "a;b", "b", "b; c", "c"] * 5, "several"),
        ([["a"], ["a", "b"]] * 5, "several"),
        (["['a']", "['a', 'b, c']"] * 5, "several"),
        (["No, thanks", "Yes"] * 5, "one"),
        (["1", "2", "3", "4", "5"] * 5, "one"),
        ([str(i) for i in range(77)] * 4, "one"),
        (["1.5", "2.25", "3"] * 5, "number"),
        ([str(i * 37) for i in range(40)], "number"),
    ],
)
def test_labels_are_classes_several_of_them_or_numbers(values, kind):
    assert kind_of_labels([{"label": value} for value in values], "label").kind == kind


def test_what_labels_are_can_be_said(tmp_path):
    path = table(tmp_path / "my.csv", [("text", "stars"), *((a, i % 5) for i, (a, _) in
                                                            enumerate(ROWS))])  # fmt: skip
    found = made(path)
    assert found.tables["objective"]["name"] == "classification"
    assert any("--labels number" in note for note in found.notes)
    found = made(path, labels="number")
    assert found.tables["objective"]["name"] == "regression"
    assert found.tables["data"]["columns"] == {"text": "text", "value": "stars"} or (
        found.tables["data"]["columns"] == {"value": "stars"}
    )


def test_rare_labels_are_told_and_weighted_on_request(tmp_path):
    rows = [("text", "label"), *((f"text {i}", "rare" if i < 2 else "usual") for i in range(40))]
    path = table(tmp_path / "my.csv", rows)
    assert any("--balanced" in note for note in made(path).notes)
    found = made(path, balanced=True).tables["objective"]["class_weights"]
    assert found == {"rare": 10.0, "usual": pytest.approx(40 / 76, abs=1e-4)}


@pytest.mark.parametrize(
    ("labels", "said"),
    [(["a"] * 20, "the one label 'a'"), ([f"l{i}" for i in range(20)], "20 different labels")],
)
def test_labels_that_cannot_be_right_stop(tmp_path, labels, said):
    path = table(tmp_path / "my.csv", [("text", "label"), *(("a text", one) for one in labels)])
    with pytest.raises(gf.DataError, match=said):
        made(path)


def test_numbers_with_decimal_commas_are_named(tmp_path):
    rows = [("text", "score"), *((f"text {i}", f"{i},5") for i in range(20))]
    path = table(tmp_path / "my.csv", rows, delimiter=";")
    with pytest.raises(gf.DataError, match=r"decimal commas, such as .*; write them with points"):
        made(path)


def test_json_of_another_shape_is_told_what_a_row_is(tmp_path):
    path = tmp_path / "my.json"
    path.write_text(json.dumps({"data": [{"text": "a", "label": "b"}]}))
    with pytest.raises(gf.DataError, match="a row is one JSON object in a line, or in an array"):
        made(str(path))


def test_few_rows_are_not_held_out_and_a_file_can_be(tmp_path):
    path = table(tmp_path / "my.csv", [("text", "label"), *ROWS[:6]])
    found = made(path)
    assert "validation" not in found.tables["data"] and "too few" in " ".join(found.notes)
    assert made(path, validation=path).tables["data"]["validation"] == path
    longer = table(tmp_path / "longer.csv", [("text", "label"), *ROWS])
    assert made(longer).tables["data"]["validation"] == 0.1
    assert "validation" not in made(longer, validation=0.0).tables["data"]


def test_few_held_out_rows_do_not_tell_close_models_apart(tmp_path):
    for rows, tolerance in ((500, 0.071), (2000, None)):
        path = table(tmp_path / f"{rows}.csv", [("text", "label"), *(ROWS * (rows // 20))])
        found = made(path).tables["train"]
        assert found["metric_for_best_model"] == "accuracy"
        assert found.get("metric_tolerance") == tolerance
    numbers = [("text", "score"), *((text, i / 7) for i, (text, _) in enumerate(ROWS))]
    found = made(table(tmp_path / "numbers.csv", numbers)).tables["train"]
    assert found["metric_for_best_model"] == "loss" and "metric_tolerance" not in found


def test_settings_are_those_of_the_user(tmp_path):
    path = table(tmp_path / "my.csv", [("text", "label"), *ROWS])
    found = made(
        path, epochs=2, learning_rate=1e-4, batch_size=4, seed=3, lora=True, out="there",
        settings=["train.weight_decay=0.5"],
    ).tables  # fmt: skip
    wanted = {"epochs": 2, "learning_rate": 1e-4, "batch_size": 4, "seed": 3, "weight_decay": 0.5}
    assert wanted.items() <= found["train"].items()
    assert found["adapter"] == {"type": "lora"} and found["run"] == {"out": "there"}


def test_larger_models_learn_at_smaller_rates_and_longer_rows_in_smaller_batches():
    small = Workload(rows=500, tokens=32, parameters=4_000_000, width=192, layers=6)
    large = Workload(rows=50_000, tokens=512, parameters=110_000_000, width=768, layers=12)
    one, other = train_settings(small), train_settings(large)
    assert one["learning_rate"] > 10 * other["learning_rate"] and one["epochs"] > other["epochs"]
    rows = other["batch_size"] * other.get("gradient_accumulation_steps", 1)
    assert rows >= 64 > one["batch_size"]


def test_a_head_is_kept_if_it_has_the_labels_and_is_new_otherwise(tmp_path):
    base = BaseModel("zoo:encoder")
    settings, said = base.settings("classify", "classify", ("bad", "good"))
    assert settings["architecture"] == "BertForSequenceClassification"
    made = gf.load(
        "zoo:encoder", architecture=settings["architecture"], labels=["bad", "good"],
        init_missing=settings["init_missing"],
    )  # fmt: skip
    made.save(tmp_path / "two")
    again = BaseModel(str(tmp_path / "two"))
    assert again.settings("classify", "classify", ("good", "bad"))[0] == {"base": again.name}
    settings, said = again.settings("classify", "classify", ("a", "b"))
    assert settings["init_missing"] == settings["ignore_unexpected"] == ["classifier"]
    assert "It replaces a head for whole texts." in said
    fresh = gf.load(
        settings["base"], architecture=settings["architecture"], labels=["a", "b"], seed=5,
        init_missing=settings["init_missing"], ignore_unexpected=settings["ignore_unexpected"],
    )  # fmt: skip
    old, new = made.state_dict(), fresh.state_dict()
    assert [name for name in old if not old[name].equal(new[name])] == [
        "heads.classify.out.weight"
    ]  # a new bias is zero, too; the pooler is kept


def test_a_model_that_a_task_does_not_suit_is_one_sentence(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("A text.\n" * 100)
    with pytest.raises(gf.UnsupportedError, match="generate needs a head for the vocabulary"):
        made(str(path), "generate", base="zoo:reader")
    path = table(tmp_path / "my.csv", [("text", "label"), *ROWS])
    with pytest.raises(gf.UnsupportedError, match="start from zoo:encoder"):
        made(path, base="zoo:reader")


def test_every_task_with_training_data_has_words_and_an_objective():
    verbs = {verb for verb, declared in TASKS.all().items() if declared.training is not None}
    assert verbs == set(SYNONYMS)
    for verb in verbs:
        assert objective_of(verb, True) in objective_names()
        assert objective_of(verb, False) in objective_names()
    words = [word for verb, others in SYNONYMS.items() for word in (verb, *others)]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("word", "verb"),
    [("NER", "tag"), ("text_classification", "classify"), ("question answering", "answer")],
)
def test_other_words_for_tasks(word, verb):
    assert verb_of(word) == verb and find_task(word)[0] == verb


@pytest.mark.parametrize("word", ["rewrite", "reward", "weather", "training", "plot"])
def test_no_wrong_task_is_suggested(word):
    with pytest.raises(gf.ConfigError, match="there are classify, tag"):
        find_task(word)


def test_json_rows_of_a_tagger_need_lists(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "Ada lives", "label": "B-PER O"}) + "\n")
    with pytest.raises(gf.DataError, match="has no list of words"):
        made(str(path), "tag")
    path.write_text(json.dumps({"words": [1.5, "lives"], "tags": ["B-PER", "O"]}) + "\n")
    with pytest.raises(gf.DataError, match="has no list of words"):
        made(str(path), "tag")


def test_a_column_without_a_name_is_not_listed(tmp_path):
    path = table(tmp_path / "my.csv", [("text", "label", ""), *((a, b, "") for a, b in ROWS)])
    assert not any("not read" in note for note in made(path).notes)


PAIRS = [(f"the cat {i} is here", f"le chat {i} est ici") for i in range(20)]


@pytest.mark.parametrize("header", [("en", "fr"), ("English", "french"), ("eng_Latn", "fr_FR")])
def test_columns_named_after_languages_are_the_sides_of_a_translation(tmp_path, header):
    path = table(tmp_path / "my.csv", [header, *PAIRS])
    english, french = header
    for languages in ({"source_language": "fr"}, {}):
        found = made(path, "translate", target_language="en", **languages).tables["data"]["columns"]
        assert found == {"source": french, "target": english}
    found = made(path, "translate", target_language="fr").tables["data"]["columns"]
    assert found == {"source": english, "target": french}


def test_texts_in_another_language_than_the_one_to_write(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS))
    made(str(path), "translate", target_language="fr")
    with pytest.raises(gf.DataError, match=r"target of .* are French \(fr\), and --to is en"):
        made(str(path), "translate", source_language="fr", target_language="en")
    columns = {"source": "column 2", "target": "column 1"}
    found = made(str(path), "translate", target_language="en", format="tsv", columns=columns)
    assert found.tables["data"]["columns"] == columns


def test_translations_in_an_object_by_language(tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [{"id": i, "translation": {"en": a, "fr": b}} for i, (a, b) in enumerate(PAIRS)]
    for text in ("".join(json.dumps(row) + "\n" for row in rows), json.dumps(rows)):
        path.write_text(text)
        found = made(str(path), "translate", target_language="en")
        assert found.tables["data"]["columns"] == {"source": "fr", "target": "en"}
        (note,) = [note for note in found.notes if "not read" in note]
        assert note.endswith("not read: id.")


def test_pairs_with_a_grade_are_not_all_learned_as_similar(tmp_path):
    rows = [("sentence1", "sentence2", "score"), *((a, b, i % 5) for i, (a, b) in enumerate(PAIRS))]
    path = table(tmp_path / "my.csv", rows)
    with pytest.raises(gf.DataError, match=r"column score may .* --text sentence1 --column posit"):
        made(path, "embed")
    columns = {"text": "sentence1", "positive": "sentence2"}
    found = made(path, "embed", columns=columns)
    assert found.tables["data"]["columns"] == columns
    assert any(note.endswith("not read: score.") for note in found.notes)


@pytest.mark.parametrize(("task", "form"), [("answer", "conll"), ("classify", "squad")])
def test_a_format_without_what_the_task_learns_from(tmp_path, task, form):
    path = tmp_path / "my.txt"
    questions = {"context": "Ada.", "qas": [{"id": "1", "question": "Who?", "answers": []}]}
    squad = json.dumps({"data": [{"paragraphs": [questions]}]})
    path.write_text("Ada B-PER\n" if form == "conll" else squad)
    with pytest.raises(gf.DataError, match=f"is read as {form}, .*{task} learns from"):
        made(str(path), task, format=form)


def test_texts_that_the_vocabulary_does_not_know(tmp_path):
    rows = [("text", "label"), *((f"我的卡丢了{i}", "卡" if i % 2 else "款") for i in range(20))]
    path = table(tmp_path / "my.csv", rows)
    (note,) = [note for note in made(path).notes if "unknown" in note]
    assert "of the characters are unknown to the vocabulary of zoo:encoder" in note
    path = table(tmp_path / "my.csv", [("text", "label"), *ROWS])
    assert not any("unknown" in note for note in made(path).notes)
