"""gf.evaluate: metrics equal those of each verb's predictions; invalid input."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import tiny_gpt2 as tiny
from rights import ABOUT, BOTH, ENGLISH, GERMAN, learn
from scipy import stats
from small_models import UNSEEN, bert, reviews, train_classifier, word_tokenizer
from trained import train_tagger, write_squad

import glassformer as gf
from glassformer.errors import GlassformerError
from glassformer.metrics.ner import report
from glassformer.metrics.squad import squad_scores
from glassformer.metrics.translation import summary_scores, translation_scores

WORDS = " ".join(UNSEEN) + " one two three four Where was born in who?"
ROWS = [{"text": text, "label": label} for text, label in UNSEEN.items()]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return str(train_classifier(tmp_path_factory.mktemp("reviews"), reviews()))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return word_tokenizer(tmp_path_factory.mktemp("words"), WORDS)


def test_labels_of_a_model_that_learned_them(classifier):
    found = gf.evaluate(classifier, ROWS)
    assert (found.task, found.records) == ("classification", len(ROWS))
    assert found["accuracy"] == 1.0 and found["matthews"] == 1.0
    wrong = [{**ROWS[0], "label": "bad"}, *ROWS[1:]]
    found = gf.evaluate(classifier, wrong, n_resamples=200)
    hits = len(ROWS) - 1
    assert found["accuracy"] == found["micro_f1"] == pytest.approx(hits / len(ROWS))
    assert found.metrics["accuracy"].low < found["accuracy"] < found.metrics["accuracy"].high
    assert found.classes.classes["bad"].support == 4
    assert found.classes.classes["good"].precision == pytest.approx(2 / 3)
    again = gf.evaluate(classifier, wrong, n_resamples=200)
    assert again == found and found.record()["metrics"]["accuracy"]["low"] is not None


def wilson(hits, records):
    return stats.binomtest(hits, records).proportion_ci(method="wilson")


def test_few_records_that_are_all_right_leave_room_for_doubt(classifier):
    metrics = gf.evaluate(classifier, ROWS[:3]).metrics
    assert (metrics["accuracy"].low, metrics["accuracy"].high) == pytest.approx(wilson(3, 3))
    assert metrics["macro_f1"].value == 1.0 and metrics["macro_f1"].low is None
    assert gf.evaluate(classifier, ROWS[:3], n_resamples=0).metrics["accuracy"].low is None


def test_of_several_heads_one_is_meant():
    row = {"text": "A dull film.", "label": "negative"}
    assert gf.evaluate("zoo:reader", [row], head="sentiment")["accuracy"] == 1.0
    heads = r"give the task, or the head \(topic, sentiment, entities\)"
    with pytest.raises(GlassformerError, match=heads):
        gf.evaluate("zoo:reader", [row])


def test_files_of_several_formats_give_the_same(classifier, tmp_path):
    table, lines = tmp_path / "a.csv", tmp_path / "a.jsonl"
    rows = "".join(f'"{row["text"]}",{row["label"]}\n' for row in ROWS)
    table.write_text("review,mood\n" + rows)
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    columns = {"text": "review", "label": "mood"}
    one = gf.evaluate(classifier, table, columns=columns)
    assert one == gf.evaluate(classifier, lines) == gf.evaluate(classifier, [str(lines)])
    assert gf.evaluate(classifier, lines, limit=2).records == 2
    renamed = [{"review": row["text"], "mood": row["label"]} for row in ROWS]
    assert gf.evaluate(classifier, iter(renamed), columns=columns) == one
    with pytest.raises(GlassformerError, match="record 1: a record is a dict, not int"):
        gf.evaluate(classifier, [ROWS[0], 5])
    with pytest.raises(GlassformerError, match="no format 'yaml'; there are text, jsonl"):
        gf.evaluate(classifier, lines, format="yaml")


def test_labels_that_are_not_the_models(classifier):
    rows = [*ROWS[:2], {"text": "Fine.", "label": "goood"}, {"text": " ", "label": "bad"}]
    with pytest.raises(GlassformerError) as said:
        gf.evaluate(classifier, rows)
    assert "record 2: the label 'goood' is not a label of the model" in str(said.value)
    assert "(did you mean 'good'?): bad, good; correct it" in str(said.value)
    found = gf.evaluate(classifier, rows, on_error="skip")
    assert found.records == 2 and len(found.skipped) == 2
    assert "record 3" in found.skipped[0] + found.skipped[1]
    with pytest.raises(GlassformerError, match=r"no records to evaluate with\. The first of 1: "):
        gf.evaluate(classifier, rows[2:3], on_error="skip")
    with pytest.raises(GlassformerError, match="record 0: there is no column 'label', only text"):
        gf.evaluate(classifier, [{"text": "x"}])


def test_the_label_is_read_beside_a_column_labels(classifier):
    rows = [{**row, "labels": "a, b"} for row in ROWS]
    assert gf.evaluate(classifier, rows).metrics == gf.evaluate(classifier, ROWS).metrics


def test_tags_may_be_numbers(tokenizer):
    model = bert(tokenizer, "TokenClassification", labels=("0", "1"))
    rows = [{"words": ["A", "film"], "tags": [0, 1]}] * 2
    named = [{**row, "tags": ["0", "1"]} for row in rows]
    assert gf.evaluate(model, rows).metrics == gf.evaluate(model, named).metrics


def test_several_labels_a_text(tokenizer):
    model = bert(tokenizer, labels=("a", "b", "c"), problem_type="multi_label_classification")
    found = [one.labels for one in model.classify(list(UNSEEN), threshold=0.5)]
    rows = [{"text": t, "labels": list(said)} for t, said in zip(UNSEEN, found, strict=True)]
    assert gf.evaluate(model, rows)["accuracy"] == 1.0
    rows[0]["labels"] = [] if found[0] else ["a"]
    judged = gf.evaluate(model, rows)
    assert judged["accuracy"] == pytest.approx(5 / 6) and "matthews" not in judged.metrics


def test_examples_come_from_their_own_file(tmp_path):
    model, rows = tiny.model(), tiny.records()["piqa"]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[6:]))
    one = gf.evaluate(model, rows[:6], "piqa", num_fewshot=2, examples=path)
    bounds = wilson(round(6 * one["acc"]), 6)
    assert (one.metrics["acc"].low, one.metrics["acc"].high) == pytest.approx(bounds)
    assert one == gf.evaluate(model, rows[:6], "piqa", num_fewshot=2, examples=rows[6:])
    with pytest.raises(GlassformerError, match="99 examples cannot be drawn from 18 records"):
        gf.evaluate(model, rows[:6], "piqa", num_fewshot=99, examples=path)


def test_entities_of_a_model_that_learned_them(tmp_path):
    folder = train_tagger(tmp_path, "IOB2")
    found = gf.evaluate(folder, tmp_path / "test.conll")
    model, records = gf.load(folder), []
    for block in (tmp_path / "test.conll").read_text("utf-8").strip().split("\n\n"):
        records.append([line.split("\t") for line in block.splitlines()])
    tags = [one.tags for one in model.tag([[word for word, _ in record] for record in records])]
    wanted = report(tags, [[tag for _, tag in record] for record in records])
    assert found.task == "tagging" and found.records == len(records)
    assert found["f1"] == pytest.approx(wanted.entities.micro.f1) and found["f1"] > 0.9
    assert found["precision"] == pytest.approx(wanted.entities.micro.precision)
    assert found["recall"] == pytest.approx(wanted.entities.micro.recall)
    assert found["macro_f1"] == pytest.approx(wanted.entities.macro.f1)
    assert found["accuracy"] == pytest.approx(wanted.accuracy)
    assert found.classes == wanted.entities


def test_answers_are_judged_as_squad_judges_them(tmp_path):
    records = write_squad(tmp_path / "dev.json", 12, seed=3)
    words = " ".join(f"{one['context']} {one['question']}" for one in records)
    model = bert(word_tokenizer(tmp_path / "words", words), "QuestionAnswering")
    found = gf.evaluate(model, tmp_path / "dev.json")
    given = model.answer([r["question"] for r in records], [r["context"] for r in records])
    right = {r["id"]: [one["text"] for one in r["answers"]] for r in records}
    texts = {r["id"]: one.text for r, one in zip(records, given, strict=True)}
    wanted = squad_scores(texts, right)
    assert found.task == "question-answering" and found.records == wanted["total"]
    assert found["exact"] == pytest.approx(wanted["exact"])
    exact, hits = found.metrics["exact"], round(wanted["exact"] * wanted["total"] / 100)
    bounds = [100 * bound for bound in wilson(hits, wanted["total"])]
    assert [exact.low, exact.high] == pytest.approx(bounds)
    assert found["f1"] == pytest.approx(wanted["f1"])


def test_numbers_and_choices(tokenizer):
    rated = bert(tokenizer, labels=("value",), problem_type="regression")
    rows = [{"text": text, "value": len(text)} for text in UNSEEN]
    found = gf.evaluate(rated, rows, n_resamples=50)
    assert found.task == "regression" and {*found.metrics} == {"pearson", "spearman", "error"}
    chooser = bert(tokenizer, "MultipleChoice")
    rows = [
        {"question": "Where?", "choices": ["one two", "three"], "label": i % 2} for i in range(4)
    ]
    found = gf.evaluate(chooser, rows)
    assert (found.task, found["accuracy"]) == ("multiple-choice", 0.5)  # the same answer each time
    assert found.metrics["accuracy"].low == pytest.approx(wilson(2, 4).low)


def test_perplexity_is_that_of_all_tokens(tmp_path):
    model, texts = tiny.model(), [record["text"] for record in tiny.records()["lambada"][:4]]
    found = gf.evaluate(model, [{"text": text} for text in texts])
    scores = [model.score(text) for text in texts]
    total, count = sum(s.total for s in scores), sum(len(s.logprobs) for s in scores)
    assert found.task == "perplexity"
    assert found["perplexity"] == pytest.approx(math.exp(-total / count))
    size = sum(len(model.tokenizer.decode(s.tokens).encode()) for s in scores)
    assert found["bits_per_byte"] == pytest.approx(-total / math.log(2) / size)
    whole = tmp_path / "a.txt"
    whole.write_text("\n\n".join(texts), "utf-8")
    one = gf.evaluate(model, whole)
    assert one.records == 1
    assert one["perplexity"] == pytest.approx(model.score("\n\n".join(texts)).perplexity)


def test_a_continuation_that_does_not_fit_is_about_its_record_alone():
    model = tiny.model()
    row = {"query": "Tea is", "choices": ["good.", "bad."], "gold": 0}
    rows = [row, {**row, "choices": ["good.", "x y " * 300]}, row]
    found = gf.evaluate(model, rows, "choices", on_error="skip")
    assert found.records == 2 and "record 1: A continuation has" in found.skipped[0]
    with pytest.raises(GlassformerError, match="record 1: A continuation has"):
        gf.evaluate(model, rows, "choices")


def test_files_of_plain_text_are_benchmarks_too(tmp_path):
    model, path = tiny.model(), tmp_path / "scenes.txt"
    path.write_text("Tea: A man boils tea. he\n1\nsits.\ndrinks.\nflies.\nis.\n" * 3)
    found = gf.evaluate(model, path, "hellaswag")
    record = {"query": "Tea: A man boils tea. he", "gold": 1}
    same = gf.evaluate(
        model, [{**record, "choices": ["sits.", "drinks.", "flies.", "is."]}], "choices"
    )
    assert found.records == 3 and found["acc"] == same["acc"]
    path.write_text("one line\n")
    with pytest.raises(GlassformerError, match="1 lines, and each record has 6"):
        gf.evaluate(model, path, "hellaswag")


def test_vectors_of_texts_that_belong_together(tokenizer):
    model = bert(tokenizer, "MaskedLM")
    texts = list(dict.fromkeys(row["text"] for row in ROWS))
    others = texts[2:] + texts[:2]
    rows = [{"text": a, "positive": b} for a, b in zip(texts, others, strict=True)]
    found = gf.evaluate(model, rows, "embedding")
    vectors = map(model.embed, (texts, others))
    one, other = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in vectors)
    cosines = one @ other.T
    ranks = [1 + sum(row > row[i] + 1e-6) for i, row in enumerate(cosines)]
    assert found["mrr"] == pytest.approx(np.mean([1 / rank for rank in ranks]))
    right = sum(rank == 1 for rank in ranks)
    assert found["accuracy"] == pytest.approx(right / len(rows))
    limits = found.metrics["accuracy"]
    assert (limits.low, limits.high) == pytest.approx(wilson(right, len(rows)))
    rows[0]["positive"] = 3
    assert gf.evaluate(model, rows, "embed", on_error="skip").records == len(rows) - 1


def test_tasks_that_are_not_there_and_models_without_the_head(classifier, tokenizer):
    with pytest.raises(GlassformerError, match=r"no task 'hellaswarg'.*mean 'hellaswag'"):
        gf.evaluate(classifier, ROWS, "hellaswarg")
    with pytest.raises(GlassformerError, match="a model to classify with"):
        gf.evaluate(classifier, ROWS, "arc_easy")
    with pytest.raises(GlassformerError, match="evaluate by tagging needs a head for every word"):
        gf.evaluate(classifier, ROWS, "tagging")
    assert gf.evaluate(bert(tokenizer, "MaskedLM"), ROWS, n_resamples=0).task == "masked-lm"
    with pytest.raises(GlassformerError, match="Few-shot examples are for benchmarks"):
        gf.evaluate(classifier, ROWS, num_fewshot=2)


def test_translations_and_summaries_beside_references(tmp_path):
    rows = [{"source": g, "target": e} for g, e in zip(GERMAN, ENGLISH, strict=True)]
    model = learn(tmp_path / "de", rows, BOTH, objective={"name": "sequence-to-sequence"})
    rows[0]["target"] = [ABOUT[0], "All people are born free and equal in dignity and rights."]
    rows[1]["target"] = "Nobody has the right to anything."
    found = gf.evaluate(model, rows, "translation", n_resamples=100)
    texts = [one.text for one in model.translate(GERMAN)]
    several = [r["target"] if isinstance(r["target"], list) else [r["target"]] for r in rows]
    wanted = translation_scores(texts, several)
    assert [found["bleu"], found["chrf"]] == pytest.approx([one.value for one in wanted])
    assert found.metrics["bleu"].low < found["bleu"] < found.metrics["bleu"].high
    found = gf.evaluate(model, rows, "summarization", n_resamples=100)
    wanted = summary_scores([one.text for one in model.summarize(GERMAN)], several)
    assert list(found.metrics) == [one.name.replace("ROUGE-", "rouge") for one in wanted]
    assert [f.value for f in found.metrics.values()] == pytest.approx([w.value for w in wanted])
    with pytest.raises(GlassformerError, match="a model to summarize or translate with"):
        gf.evaluate(model, rows)
