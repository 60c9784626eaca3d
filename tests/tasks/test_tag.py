"""tag end to end: a tiny model that learned names in the test finds them, by Python and by the
command line."""

from __future__ import annotations

import json
import random
import tracemalloc
from itertools import count, islice

import longtexts
import pytest
import seqeval.metrics as seqeval
import torch
import trained
import transformers
from seqeval import scheme
from small_models import bert, word_tokenizer
from typer.testing import CliRunner

import glassformer as gf
from glassformer.cli import app
from glassformer.data import DataSettings
from glassformer.data.records import Records
from glassformer.tasks.tag import Tagger
from glassformer.tasks.task_settings import keep
from glassformer.tasks.windows import WindowFrame, encode_many_words, windows
from glassformer.tasks.words import find_words


@pytest.fixture(scope="module", params=["IOB2", "IOBES"])
def folder(request, tmp_path_factory):
    made = tmp_path_factory.mktemp(request.param)
    trained.train_tagger(made, request.param)
    return made


@pytest.fixture(scope="module")
def model(folder):
    return gf.load(folder / "run" / "model")


def spans_of(result) -> list[tuple[str, int, int]]:
    for span in (*result.entities, *result.words):
        assert result.text[span.start : span.end] == span.text
        assert 0 < span.probability <= 1
    return [(entity.type, entity.start, entity.end) for entity in result.entities]


def records(folder):
    settings = DataSettings(test=(str(folder / "test.conll"),), format="conll")
    found = list(Records(settings, "test"))
    return [one["words"] for one in found], [one["tags"] for one in found]


def test_names_are_found_where_they_stand(model):
    texts, right = zip(*(trained.sentence(random.Random(seed)) for seed in range(60)), strict=True)
    found = model.tag(list(texts))
    assert [spans_of(one) for one in found] == list(right)
    assert spans_of(model.tag(texts[0])) == right[0]
    assert model.tag("Ada Lovelace was born in Zoe\u0301.").entities[0].text == "Ada Lovelace"


def test_words_that_are_given(model, folder):
    words, tags = records(folder)
    assert [one.tags for one in model.tag(words)] == tags
    one = model.tag([["Zoe\u0301", "likes", "北", "京"]])[0]
    assert one.text == "Zoe\u0301 likes 北 京"
    assert [one.text[w.start : w.end] for w in one.words] == ["Zoe\u0301", "likes", "北", "京"]


def test_an_iterator_gives_results_as_they_come(model):
    results = model.tag("Ada Lovelace likes Paris." for _ in count())
    assert [len(one.entities) for one in islice(results, 3)] == [2, 2, 2]


def test_tags_are_those_of_the_reference(model, folder):
    """Loaded by transformers: the first token of each word, as its own tokenizer aligns them."""
    place = str(folder / "run" / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    reference = transformers.AutoModelForTokenClassification.from_pretrained(place).eval()
    words, _ = records(folder)
    for one in [text for text in words if len(text) < 20][:10]:
        read = tokenizer(one, is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            probs = reference(**read).logits[0].softmax(-1)
        numbers = read.word_ids()
        first = [numbers.index(number) for number in range(len(one))]
        (found,) = model.tag([one])
        assert found.tags == [reference.config.id2label[int(probs[i].argmax())] for i in first]
        for word, slot in zip(found.words, first, strict=True):
            assert word.probability == pytest.approx(float(probs[slot].max()), abs=1e-5)


def test_the_report_is_seqevals(model, folder):
    words, tags = records(folder)
    broken = [[t if n % 7 else "O" for n, t in enumerate(text)] for text in tags]  # hide some
    own = Tagger(model).report(words, broken)
    predicted = [one.tags for one in model.tag(words)]
    expected = seqeval.classification_report(broken, predicted, output_dict=True, zero_division=0)
    for kind in ("PER", "LOC"):
        row = own.entities.classes[kind]
        assert (row.precision, row.recall, row.f1, row.support) == pytest.approx(
            tuple(expected[kind][k] for k in ("precision", "recall", "f1-score", "support"))
        )
    assert 0 < own.entities.micro.f1 < 1 and 0 < own.tokens.micro.f1 < 1
    assert own.accuracy < 1


def test_the_report_on_the_command_line(folder):
    strict = "IOBES" if "IOBES" in folder.name else "IOB2"
    place, data = str(folder / "run" / "model"), str(folder / "test.conll")
    options = ["tag", place, "--file", data, "--report", "--strict", strict]
    said = run(*options, "--json")
    (found,) = map(json.loads, said.stdout.splitlines())
    words, tags = records(folder)
    kinds = {"IOB2": scheme.IOB2, "IOBES": scheme.IOBES}
    predicted = [one.tags for one in gf.load(place).tag(words)]
    expected = seqeval.classification_report(
        tags, predicted, output_dict=True, mode="strict", scheme=kinds[strict]
    )
    assert found["entities"]["classes"]["PER"]["support"] == expected["PER"]["support"]
    assert found["entities"]["micro"]["f1"] == pytest.approx(expected["micro avg"]["f1-score"])
    assert found["accuracy"] == 1.0
    assert found["tags"]["classes"]["O"]["support"] == sum(t == "O" for x in tags for t in x)
    lines = run(*options).stdout.split("\n")
    (begin,) = (number for number, line in enumerate(lines) if line.split() == ["tags"])
    rows = {line.split()[0] for line in lines[begin + 1 :] if line}
    assert {"B-PER", "O", "token"} <= rows
    assert "The usual figure of a tagger is F1 (micro) of entities." in lines[-2]
    assert lines[0].split() == ["precision", "recall", "f1", "support"]
    assert ["PER", "1.0000", "1.0000", "1.0000"] in [line.split()[:4] for line in lines]
    assert {"micro", "macro", "weighted"} <= {word for line in lines for word in line.split()[:1]}


def run(*words: str, code: int = 0, **options):
    said = CliRunner().invoke(app, [*words], catch_exceptions=code == 0, **options)
    if code == 0:
        assert said.exit_code == 0, said.output
    return said


def test_the_command_line(folder, tmp_path):
    place = str(folder / "run" / "model")
    text = "In 北京, Zoe\u0301 met nobody 🎉!"
    (line,) = run("tag", place, text, "--json").stdout.splitlines()
    found = json.loads(line)
    entities = found["entities"]
    assert [(one["type"], one["text"]) for one in entities] == [
        ("LOC", "北京"),
        ("PER", "Zoe\u0301"),
    ]
    assert all(text[one["start"] : one["end"]] == one["text"] for one in entities)
    shown = run("tag", place, text).stdout
    assert "LOC" in shown and "北京" in shown and "nobody" not in shown
    assert "nobody" in run("tag", place, text, "--words").stdout
    data = tmp_path / "texts.jsonl"
    lines = [{"text": "Ada Lovelace likes Paris"}, {"text": " "}, {"words": ["Vienna", "!"]}]
    data.write_text("\n".join(map(json.dumps, lines)) + '\n{"text"\n', "utf-8")
    said = run("tag", place, "--file", str(data), "--json", "--on-error", "skip")
    found = [json.loads(line) for line in said.stdout.splitlines()]
    assert [len(one["entities"]) for one in found] == [2, 1]
    assert f"{data}:2: the text is empty; skipped" in said.stderr
    assert f"{data}:4" in said.stderr and "2 used, 2 skipped" in said.stderr
    with pytest.raises(gf.GlassformerError, match=r"texts\.jsonl:2: the text is empty; correct it"):
        run("tag", place, "--file", str(data), code=1)


def test_a_report_whose_labels_do_not_match(folder, tmp_path):
    data = tmp_path / "other.conll"
    data.write_text("Ada\tB-NAME\n\nVienna\tB-LOC\n", "utf-8")
    place = str(folder / "run" / "model")
    with pytest.raises(gf.GlassformerError, match=r"the tag 'B-NAME'; it has B-LOC"):
        run("tag", place, "--file", str(data), "--report", code=1)
    said = run("tag", place, "--file", str(data), "--report", "--json", "--on-error", "skip")
    assert json.loads(said.stdout)["entities"]["micro"]["support"] == 1
    plain = tmp_path / "plain.txt"
    plain.write_text("Ada was here", "utf-8")
    with pytest.raises(gf.GlassformerError, match="a report needs words and their tags"):
        run("tag", place, "--file", str(plain), "--report", code=1)


@pytest.mark.parametrize("given", ["", " \n", [], [["a", ""]], "\u200b", ["a", 3], "a\ud800"])
def test_bad_input(model, given):
    if given == []:
        assert model.tag([]) == []
        return
    with pytest.raises(gf.GlassformerError):
        model.tag(given)


def test_bad_options(model, tmp_path):
    with pytest.raises(gf.GlassformerError, match="split is words, characters, spaces"):
        model.tag("a", split="letters")
    with pytest.raises(gf.GlassformerError, match="leaves no space for the text"):
        model.tag("a", max_length=2)
    with pytest.raises(gf.GlassformerError, match="exceeds the model's 64 positions"):
        model.tag("a", max_length=65)
    other = bert(word_tokenizer(tmp_path, "a b"), "QuestionAnswering")
    with pytest.raises(
        gf.GlassformerError, match=r"tag needs a head for every word.*to answer with"
    ):
        other.tag("a")


@pytest.mark.parametrize("folder", ["IOB2"], indirect=True)
def test_two_hundred_pages(folder):
    """600,000 characters with emoji, Chinese and combining marks, tag by tag and place by place."""
    text, right = trained.document(random.Random(5), 20_500)
    assert len(text) > 600_000
    result = gf.load(folder / "run" / "model").tag(text)
    assert spans_of(result) == right
    assert [(word.start, word.end) for word in result.words] == list(find_words(text))


def test_a_long_text_is_never_held_in_tokens():
    """Windows of a text five times as long take hardly more memory."""
    tokenizer = longtexts.tokenizer("wordpiece")
    frame = WindowFrame.of(tokenizer)

    def peak(characters: int) -> int:
        text = longtexts.text(characters)
        words = [text[start:end] for start, end in find_words(text)]
        tracemalloc.start()
        for window in windows(encode_many_words(tokenizer, words), 510, 383):
            frame.add_frame(window.text)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1_000)
    assert peak(60_000) < 1.3 * peak(12_000)


def test_settings_travel_with_the_model(folder, model):
    assert model.config["task_specific_params"] == {"tag": {"length": 32, "split": "words"}}
    assert Tagger(model).capacity == 30
    keep(model, "tag", split="characters")
    assert [w.text for w in model.tag("Ada").words] == [*"Ada"]
    keep(model, "tag", split="words")
