"""The data summary before the first step, and refused data."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.data.data_config import DataSettings
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.train.batches.tokenize_dataset import prepare
from glassformer.train.data_summary import DataSummary, SplitSummary, nearly_equal
from glassformer.train.objectives import make_objective
from glassformer.train.objectives.tally import Tally
from glassformer.train.reporter import Reporter
from glassformer.train.run_folder import Run

WORDS = ("red", "green", "blue", "small", "large")
SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"}


def classifier(folder: Path, train: str, **data) -> dict:
    return {
        "model": {
            "preset": "bert-base",
            "architecture": "BertForSequenceClassification",
            "num_layers": 1,
            "num_heads": 2,
            "hidden_size": 16,
            "context_length": 12,
        },
        "tokenizer": {"type": "word", "special_tokens": SPECIAL},
        "data": {"train": train, **data},
        "objective": {"name": "classification"},
        "train": {"max_steps": 1, "batch_size": 4},
        "run": {"out": str(folder), "tensorboard": False},
    }


class Listening(Reporter):
    """Keeps the summary, and whether the first step came before it."""

    summary: DataSummary | None = None
    early = False

    def data(self, summary: DataSummary) -> None:
        self.summary = summary

    def step(self, entry) -> None:
        self.early |= self.summary is None


def write(path: Path, rows: list[str], header: str = "text,label") -> str:
    path.write_text("\n".join((header, *rows)) + "\n", "utf-8")
    return str(path)


def test_rows_labels_and_truncated_texts_are_reported_and_stored(tmp_path):
    texts = [" ".join(WORDS[(i + j) % 5] for j in range(3 + 2 * (i % 8))) for i in range(40)]
    decomposed = unicodedata.normalize("NFD", "été")
    labels = ["été", " age_limit", "age_limit", "Age_Limit", decomposed]
    rows = [f"{text},{labels[i % 5]}" for i, text in enumerate(texts)]
    train = write(tmp_path / "a.csv", [*rows, "red,", " ,été"])
    valid = write(tmp_path / "v.csv", ["red,été", "blue,age_limit"])
    recipe, heard = classifier(tmp_path / "run", train, validation=valid), Listening()
    recipe["data"]["on_error"] = "skip"
    run = gf.train(recipe, reporters=[heard])
    assert heard.summary is not None and not heard.early
    found = heard.summary.splits["train"]
    lengths = [len(text.split()) + 2 for text in texts]  # with [CLS] and [SEP]
    cut = [length - 12 for length in lengths if length > 12]
    tally = found.tally
    assert (tally.rows, found.examples, found.skipped) == (40, 40, 2)
    assert (tally.texts, tally.tokens, tally.longest) == (40, sum(lengths), max(lengths))
    assert (tally.truncated, tally.cut_tokens) == (len(cut), sum(cut)) and cut
    counts = {"age_limit": 16, "été": 16, "Age_Limit": 8}
    assert tally.labels == {"classify": Counter(counts)} and tally.respelled == 16
    assert [reason.split(": ")[1] for reason in found.reasons] == [
        "the label is empty.",
        "the text is empty.",
    ]
    assert f"{train}:42: the label is empty" in found.reasons[0]
    assert set(gf.load(run.model).spec.labels) == {*counts}
    assert run.data_summary == heard.summary == Run(run.folder, run.recipe).data_summary
    stored = json.loads((run.folder / "data_summary.json").read_text())
    assert list(stored["splits"]) == ["train", "validation"] and len(stored["notes"]) == 3
    notes = heard.summary.notes()
    assert any("2 records were left out of data.train; the first: " in note for note in notes)
    assert any("nearly equal: 'age_limit' (16), 'Age_Limit' (8)" in note for note in notes)
    assert any(
        "16 labels were read in data.train without surrounding space" in note for note in notes
    )


def test_data_that_was_prepared_before_has_the_same_summary(tmp_path):
    train = write(tmp_path / "a.csv", [f"{WORDS[i % 5]},{'yn'[i % 2]}" for i in range(20)])
    summaries = []
    for name in ("one", "two"):
        heard = Listening()
        recipe = classifier(tmp_path / name, train, cache=str(tmp_path / "cache"))
        gf.train(recipe, reporters=[heard])
        summaries.append(heard.summary)
    assert summaries[0] == summaries[1]
    assert len(list((tmp_path / "cache").glob("train-*/header.json"))) == 1


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_single_label_is_an_error_with_the_remedy(tmp_path, form):
    path = tmp_path / f"a.{form}"
    if form == "csv":
        write(path, ["red,a", "blue, a", "green,a "])
    else:
        path.write_text("".join(json.dumps({"text": w, "label": 1}) + "\n" for w in WORDS))
    heard = Listening()
    with pytest.raises(DataError, match=r"All \d labels of data.train are '.'.*\[data.columns\]"):
        gf.train(classifier(tmp_path / "run", str(path)), reporters=[heard])
    assert heard.summary is not None  # the table shows it


def test_of_several_labels_a_text_one_is_enough(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        "".join(json.dumps({"text": w, "labels": ["x"][: len(w) % 2]}) + "\n" for w in WORDS)
    )
    recipe = classifier(tmp_path / "run", str(path))
    recipe["objective"]["multi_label"] = True
    assert gf.train(recipe).finished["step"] == 1


COLUMNS = [
    ({"lable": "text"}, ConfigError, r"data.columns.lable .* did you mean 'label'\? It reads text"),
    ({"pairs": "label"}, ConfigError, r"data.columns.pairs .* did you mean 'pair'\?"),
    ({"text": "txt"}, DataError, r"a.csv has no column 'txt', .*did you mean 'text'\? It has text"),
    ({"pair": "second"}, DataError, r"a.csv has no column 'second', which columns.pair names"),
]


@pytest.mark.parametrize(("columns", "kind", "said"), COLUMNS, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_misspelled_columns_are_named(tmp_path, columns, kind, said, on_error):
    train = write(tmp_path / "a.csv", ["red,a", "blue,b"])
    recipe = classifier(tmp_path / "run", train, columns=columns, on_error=on_error)
    with pytest.raises(kind, match=said):
        gf.train(recipe)


def test_columns_of_a_mixture_are_those_of_its_parts(tmp_path):
    train = write(tmp_path / "a.csv", ["red,a", "blue,b"])
    recipe = classifier(tmp_path / "run", train, columns={"sentence": "text"})
    recipe["objective"] = [{"name": "masked-lm"}, {"name": "tagging"}]
    with pytest.raises(ConfigError, match="It reads objective, text, words, tags;"):
        gf.train(recipe)


def test_labels_are_collected_without_the_invalid_rows(tmp_path):
    rows = [{"text": "red", "label": value} for value in ("a", None, float("nan"), "", ["b"], 2)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"text": "x"}]))
    with pytest.raises(DataError, match=r"a.jsonl:2: there is no label; correct it, or .*on_error"):
        gf.train(classifier(tmp_path / "stop", str(path)))
    run = gf.train(classifier(tmp_path / "run", str(path), on_error="skip"))
    assert gf.load(run.model).spec.labels == ("2", "a")
    assert run.data_summary.splits["train"].skipped == 5


def test_a_label_as_a_number_and_as_a_string_is_one(tmp_path):
    path = tmp_path / "a.jsonl"
    values = [1, "1", 1.0, True, 0, "0", False, " 0"]
    path.write_text("".join(json.dumps({"text": "red", "label": v}) + "\n" for v in values))
    run = gf.train(classifier(tmp_path / "run", str(path)))
    tally = run.data_summary.splits["train"].tally
    assert tally.labels["classify"] == {"1": 4, "0": 4}


def test_nearly_equal_labels():
    labels = {
        "Good": 1,
        "good": 9,
        "go od": 2,
        "ｇｏｏｄ": 1,
        "good\u200b": 1,
        "bad": 3,
        "1.0": 1,
        "1": 2,
    }
    groups = [sorted(group) for group in nearly_equal(labels)]
    assert groups == [sorted({*labels} - {"bad", "1.0", "1"}), ["1", "1.0"]]
    assert nearly_equal({"C": 1, "C++": 1, "C#": 1, "a_b": 1, "ab": 1}) == []


def summary_of(**splits: dict[str, int]) -> DataSummary:
    found = {}
    for name, labels in splits.items():
        tally = Tally(rows=sum(labels.values()), labels={"classify": Counter(labels)})
        found[name] = SplitSummary(
            files=("a",), skipped=0, reasons=(), documents=1, examples=1, tally=tally
        )
    return DataSummary(found)


def test_notes_on_labels():
    notes = summary_of(train={"a": 3, "NaN": 1}, validation={"a": 1, "b": 2}).notes()
    assert notes == [
        "The label 'NaN' of data.train may stand for a missing label.",
        "The label 'b' of data.validation occurs in no training record.",
    ]
    numbers = {f"text {i}": 1 for i in range(30)} | {"a": 2}
    assert "30 of 31 labels of data.train occur once" in summary_of(train=numbers).notes()[0]
    usual = dict.fromkeys(numbers, 5)
    assert summary_of(train=usual, validation=numbers).notes() == []
    assert summary_of(train={"a": 3, "b": 1}).notes() == []


def test_the_table_of_the_command_line(glassformer, tmp_path, monkeypatch):
    from glassformer.train.recipe import read_recipe

    monkeypatch.chdir(tmp_path)
    rows = [f"{' '.join(WORDS * (1 + i % 4))},{'good' if i % 3 else '[b]ad'}" for i in range(24)]
    write(tmp_path / "a.csv", [*rows, "red,"])
    recipe = classifier(Path("run"), "a.csv", on_error="skip", validation=0.25)
    Path("recipe.toml").write_text(read_recipe(recipe).text())
    code, out, said = glassformer("train", "recipe.toml")
    assert code == 0 and not out
    lines = [line.split() for line in said.splitlines()]
    assert ["data", "train", "validation"] in lines
    counts = {line[1]: [int(n) for n in line[2:]] for line in lines if line[:1] == ["label"]}
    assert {name: sum(numbers) for name, numbers in counts.items()} == {"good": 16, "[b]ad": 8}
    assert next(line for line in lines if line[:3] == ["rows", "left", "out"])
    cut = next(line for line in lines if line[:2] == ["texts", "that"])
    assert sum(map(int, cut[-2:])) == 12  # 17 and 22 tokens of 12
    assert said.index("label good") < said.index("parameters")
    assert "the label is empty" in said


OBJECTIVES = {
    "classification": ({"text": "a", "label": "x"}, [("text", " "), ("text", None), ("pair", "")]),
    "regression": ({"text": "a", "value": 1}, [("text", ""), ("value", ""), ("value", None)]),
    "tagging": (
        {"words": ["a"], "tags": ["x"]},
        [("words", []), ("words", [" "]), ("words", "a"), ("tags", [""]), ("tags", None)],
    ),
    "span": (
        {"question": "a?", "context": "b", "answers": []},
        [("question", " "), ("context", ""), ("context", 3)],
    ),
    "contrastive": (
        {"text": "a", "positive": "b"},
        [("text", ""), ("positive", "\n"), ("negative", [""])],
    ),
    "multiple-choice": (
        {"question": "a", "choices": ["b", "c"], "label": 0},
        [("question", ""), ("choices", ["b", ""]), ("label", "")],
    ),
    "masked-lm": ({"text": "a"}, [("text", " "), ("text", None), ("text", 5)]),
    "causal-lm": ({"text": "a"}, [("text", ""), ("text", float("nan"))]),
    "continuation": ({"source": "a", "target": "b"}, [("source", " "), ("target", "")]),
    "sequence-to-sequence": (
        {"source": "a", "target": "b"},
        [("source", ""), ("target", " "), ("target", ["b", ""]), ("target", None)],
    ),
    "denoising": ({"text": "a"}, [("text", "")]),
    "span-corruption": ({"text": "a"}, [("text", "")]),
    "permutation-lm": ({"text": "a"}, [("text", "")]),
    "next-sentence": ({"sentences": ["a", "b"]}, [("sentences", []), ("sentences", ["a", " "])]),
}
CLASSES = {
    "classification": ("bert", "ForSequenceClassification", ("x", "y")),
    "regression": ("bert", "ForSequenceClassification", ("value",)),
    "tagging": ("bert", "ForTokenClassification", ("x", "y")),
    "span": ("bert", "ForQuestionAnswering", ()),
    "contrastive": ("bert", "Model", ()),
    "multiple-choice": ("bert", "ForMultipleChoice", ()),
    "masked-lm": ("bert", "ForMaskedLM", ()),
    "causal-lm": ("gpt2", "LMHeadModel", ()),
    "continuation": ("gpt2", "LMHeadModel", ()),
    "sequence-to-sequence": ("bart", "ForConditionalGeneration", ()),
    "denoising": ("bart", "ForConditionalGeneration", ()),
    "span-corruption": ("t5", "ForConditionalGeneration", ()),
    "permutation-lm": ("xlnet", "LMHeadModel", ()),
    "next-sentence": ("bert", "ForPreTraining", ()),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_empty_texts_are_refused_or_skipped_by_every_objective(name, tmp_path):
    import readers

    good, changes = OBJECTIVES[name]
    family, kind, labels = CLASSES[name]
    objective = make_objective(name, readers.make(family, kind, labels), {})
    assert set(good) <= set(objective.columns)
    for column, value in changes:
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in (good, {**good, column: value})))
        for on_error in ("stop", "skip"):
            settings = DataSettings(train=(str(path),), on_error=on_error)
            cache = tmp_path / f"{column}-{changes.index((column, value))}-{on_error}"
            if on_error == "stop":
                with pytest.raises(DataError, match=r"a\.jsonl:2[: ].*on_error") as raised:
                    prepare(settings, "train", objective, cache, about={})
                assert raised.value.line == 2
            else:
                store = prepare(settings, "train", objective, cache, about={})
                assert store.skipped == 1 and store.tally.rows == 1
                assert sum(store.tally.labels.get("classify", {}).values()) <= 1


FILES = {
    "csv": ("text,label\na,x\n,y\nb,\nc,y\n", {3, 4}),
    "tsv": ("text\tlabel\na\tx\n \ty\nb\t \nc\ty\n", {3, 4}),
    "jsonl": ('{"text":"a","label":"x"}\n{"text":"","label":"y"}\n{"text":"c"}\n', {2, 3}),
}


@pytest.mark.parametrize("form", FILES)
def test_invalid_rows_of_every_format_have_their_line(form, tmp_path):
    import readers

    text, lines = FILES[form]
    path = tmp_path / f"a.{form}"
    path.write_text(text)
    model = readers.make("bert", "ForSequenceClassification", ("x", "y"))
    objective = make_objective("classification", model, {})
    with pytest.raises(GlassformerError) as raised:
        prepare(DataSettings(train=(str(path),)), "train", objective, tmp_path / "stop", about={})
    assert isinstance(raised.value, DataError) and raised.value.line == min(lines)
    settings = DataSettings(train=(str(path),), on_error="skip")
    store = prepare(settings, "train", objective, tmp_path / "skip", about={})
    assert {int(reason.split(":")[1].split()[0]) for reason in store.reasons} == lines


def test_parallel_lines_with_an_empty_side(tmp_path):
    import readers

    (tmp_path / "a.de").write_text("eins\n\n\nvier\n")
    (tmp_path / "a.en").write_text("one\ntwo\n\nfour\n")
    objective = make_objective(
        "sequence-to-sequence", readers.make("bart", "ForConditionalGeneration"), {}
    )
    files = (str(tmp_path / "a.de"), str(tmp_path / "a.en"))
    settings = DataSettings(train=files, format="parallel")
    with pytest.raises(DataError, match=r"a\.de:2: the source is empty; .*on_error"):
        prepare(settings, "train", objective, tmp_path / "stop", about={})
