"""Runs of a task on a user's rows: from the command line and in Python, extended, and used."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import ClassVar

import pytest
from small_models import REVIEWS, bert, word_tokenizer

import glassformer as gf
from glassformer.cli.verbs import declared_verbs
from glassformer.evaluate.held_out import evaluate_run
from glassformer.tasks.classify import Classification
from glassformer.train.early_stopping import EarlyStopping
from glassformer.train.extend import extended_recipe
from glassformer.train.objectives.registry import find_objective, objective_of
from glassformer.train.recipe import read_recipe
from glassformer.train.stored_recipe import read_stored_recipe
from glassformer.train.train_state import TrainState

ROWS = [
    {"review": text, "mood": mood} for pair in zip(*REVIEWS.values(), strict=True)
    for text, mood in zip(pair, REVIEWS, strict=True)
]  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("base")
    tokenizer = word_tokenizer(folder / "words", " ".join(row["review"] for row in ROWS))
    bert(tokenizer, "MaskedLM").save(folder / "model")
    return str(folder / "model")


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with Path("my.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ["review", "mood"])
        table.writeheader()
        table.writerows(ROWS)
    return tmp_path


class Frame:
    """What is used of a DataFrame: its columns, and its rows as dicts."""

    def __init__(self, rows):
        self.rows, self.columns = rows, list(rows[0])

    def to_dict(self, how):
        assert how == "records"
        return self.rows

    def __getitem__(self, name):
        return Column([row[name] for row in self.rows])


class Column:
    """A Series: it can be iterated over, and is no Sequence."""

    def __init__(self, values):
        self.values = values

    def __iter__(self):
        return iter(self.values)

    def tolist(self):
        return self.values


class Named:
    """The feature of a `datasets.Dataset` with names for its classes."""

    names = ("bad", "good")


class Dataset(list):
    column_names = ("review", "mood")
    features: ClassVar = {"review": None, "mood": Named()}


def trained(base, data="my.csv", **options):
    given = {"base": base, "epochs": 2, "batch_size": 4, "progress": False, **options}
    given["settings"] = ["train.early_stopping_patience=0"]
    return gf.train("classify", data, **given)


def test_rows_of_any_kind_train_the_same_model(here, base):
    numbered = [{**row, "mood": list(Named.names).index(row["mood"])} for row in ROWS]
    kinds = {"file": "my.csv", "dicts": ROWS, "frame": Frame(ROWS), "set": Dataset(numbered)}
    found = {name: trained(base, data, out=f"runs/{name}").load() for name, data in kinds.items()}
    first = found.pop("file")
    assert list(first.spec.labels) == ["bad", "good"]
    for model in found.values():
        assert model.spec.labels == first.spec.labels
        for name, tensor in model.state_dict().items():
            assert tensor.equal(first.state_dict()[name])
    with pytest.raises(gf.ConfigError, match="holds other rows"):
        trained(base, ROWS[:12], out="runs/dicts")


def test_a_file_with_the_name_of_the_rows_stays(here, base):
    """Unless a run of this folder has read it, and is begun anew."""
    path = Path("runs/dicts.rows.jsonl")
    path.parent.mkdir()
    for make in (lambda: path.write_text("mine"), path.mkdir, lambda: path.symlink_to("my.csv")):
        make()
        with pytest.raises(
            gf.ConfigError, match=r"dicts\.rows\.jsonl (holds other|is not a regular)"
        ):
            trained(base, ROWS, out="runs/dicts", restart=True)
        assert path.is_symlink() or path.is_dir() or path.read_text() == "mine"
        path.rmdir() if path.is_dir() else path.unlink()
    trained(base, ROWS, out="runs/dicts")
    assert trained(base, ROWS[:12], out="runs/dicts", restart=True).finished is not None
    with pytest.raises(gf.ConfigError, match=r"new or empty folder"):
        trained(base, ROWS, out=".")


def test_rows_with_dates_and_gaps_and_rows_to_validate_with(here, base):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    frame["day"] = pandas.Timestamp("2026-01-02")
    frame["gap"], frame["bytes"] = pandas.NA, b"a"
    run = trained(base, frame, label="mood", text="review", validation=frame[:4], out="runs/mine")
    files = sorted(path.name for path in Path("runs").glob("*.jsonl"))
    assert files == ["mine.rows.jsonl", "mine.validation.jsonl"]
    first = json.loads(Path("runs/mine.rows.jsonl").read_text().split("\n")[0])
    assert first == {**ROWS[0], "day": "2026-01-02 00:00:00", "gap": None, "bytes": None}
    assert evaluate_run(run).records == 4
    run = trained(base, validation=Path("my.csv"), out="runs/path")
    assert evaluate_run(run).records == len(ROWS)


def test_a_run_is_short_to_look_at_and_leads_to_its_model(here, base):
    run = trained(base, out="runs/mine")
    assert repr(run).startswith("<Run runs/mine: finished at step 9, loss ")
    assert len(repr(run)) < 200
    assert run.metrics["accuracy"] == run.finished["best"]
    assert evaluate_run(run)["accuracy"] == run.metrics["accuracy"]
    model = run.load()
    assert model.evaluate("my.csv").records == model.evaluate(Frame(ROWS)).records == 20
    best, last = (gf.load(f"runs/mine/{name}").state_dict() for name in ("best", "model"))
    assert all(best[name].equal(last[name]) for name in best)


def test_a_run_is_extended_and_keeps_what_it_holds_out(glassformer, here, base):
    words = ("train", "classify", "my.csv", "--base", base, "--out", "runs/mine")
    patient = "train.early_stopping_patience=0"
    code, shown, said = glassformer(*words, "--epochs", "1", "--batch-size", "4", patient)
    assert code == 0 and "2 records, 95% intervals" in shown, said
    run = gf.train("runs/mine")  # finished
    assert run.step == 5
    before = [record["where"] for record in held_out(run)]
    code, shown, said = glassformer("train", "runs/mine", "--epochs", "3")
    assert code == 0 and "14 steps done" in said and "2 records" in shown, said
    run = gf.train("runs/mine", epochs=4)
    assert run.step == 18 and [record["where"] for record in held_out(run)] == before
    assert [entry["step"] for entry in run.entries() if "valid" in entry][-1] == 18
    with pytest.raises(gf.ConfigError, match=r"has done 18 steps \(4.0 epochs\) already"):
        extended_recipe(Path("runs/mine"), epochs=4)
    for option in (("--lora",), ("--learning-rate", "1"), ("--text", "a")):
        code, _, said = glassformer("train", "runs/mine", *option)
        assert code == 1 and "a run keeps its recipe; --epochs and --max-steps" in said
    assert read_stored_recipe(Path("runs/mine/recipe.toml")).train.epochs == 4


def held_out(run):
    from glassformer.data import Records

    return list(Records(run.recipe.data, "validation", run.recipe.train.seed).strict())


def test_the_recipe_that_is_written_gives_the_same_run(glassformer, here, base):
    run = trained(base, out="runs/mine")
    code, _, said = glassformer("train", "runs/mine/recipe.toml", "run.out=runs/again")
    assert code == 0, said
    one, other = gf.load("runs/mine").state_dict(), gf.load("runs/again").state_dict()
    assert all(tensor.equal(other[name]) for name, tensor in one.items())
    assert run.finished == gf.train("runs/again").finished


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("classify", "my.csv", "--label", "moood"), "did you mean 'mood'?"),
        (("classify", "broken.csv"), "this row has 3 columns, not 2"),
        (("classify", "my.csv", "objective.head=no"), "needs the head 'no'"),
        (("classify", "nothing.csv"), "does not exist"),
        (("my.csv",), "name the task before a file with data"),
        (("clasify", "my.csv"), "did you mean classify?"),
        (("tag", "my.csv"), "no list of words"),
        (("classify", "my.csv", "--labels", "number"), "not a number"),
        (("recipe.toml", "--epochs", "3"), "train.epochs=3"),
        (
            ("classify", "gap.csv"),
            "the label is empty; correct it, or leave it out with --on-error",
        ),
        (("classify", "my.csv", "--to", "fr"), "--from and --to are for translate"),
        (("classify", "my.csv", "--delimiter", ";"), 'set --delimiter ","'),
        (("classify", "usual.csv", "--validation", "my.csv"), "the columns of the first file"),
    ],
)
def test_a_command_that_fails_leaves_nothing_behind(glassformer, here, base, words, said):
    Path("broken.csv").write_text(Path("my.csv").read_text() + "a,good,b\n")
    Path("usual.csv").write_text("text,label\nA film.,good\nA bore.,bad\n")
    Path("gap.csv").write_text(Path("my.csv").read_text() + "a,\n")
    Path("recipe.toml").write_text("")
    before = sorted(here.rglob("*"))
    more = () if words[0].endswith(("csv", "toml")) else ("--base", base)
    code, shown, found = glassformer("train", *words, *more)
    assert code == 1 and said in found and not shown, found
    assert "Traceback" not in found and sorted(here.rglob("*")) == before


def test_columns_of_the_user_with_names_of_ours(glassformer, here, base):
    """The one that is named as the label is it, and the others have no meaning."""
    other = {"good": "bad", "bad": "good"}
    rows = [{**row, "labels": other[row["mood"]], "objective": "buy"} for row in ROWS]
    Path("my.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("--base", base, "--label", "mood", "--text", "review", "--max-steps", "2")
    code, _, said = glassformer("train", "classify", "my.jsonl", *words, "--out", "runs/mine")
    assert code == 0 and "not read: labels, objective" in said, said
    plain = trained(base, out="runs/plain", epochs=None, max_steps=2, batch_size=0).load()
    for name, tensor in gf.load("runs/mine").state_dict().items():
        assert tensor.equal(plain.state_dict()[name])


def test_a_run_is_judged_by_the_columns_that_it_was_trained_on(glassformer, here, base):
    _, rows = Path("my.csv").read_text().split("\n", 1)
    Path("odd.csv").write_text(f"beschreibung,sorte\n{rows}")
    trained(base, "odd.csv", out="runs/odd")
    code, shown, said = glassformer("evaluate", "runs/odd", "odd.csv")
    assert code == 0 and "20 records" in shown, said
    Path("new.csv").write_text(f"beschreibung,art\n{rows}")
    code, again, said = glassformer("evaluate", "runs/odd", "new.csv", "--column", "label=art")
    assert code == 0 and again == shown, said


def test_a_folder_with_the_name_of_a_task_is_no_run(glassformer, here, base):
    Path("classify").mkdir()
    words = ("train", "classify", "my.csv", "--base", base, "--max-steps", "1")
    code, _, said = glassformer(*words, "--out", "runs/mine")
    assert code == 0, said
    assert trained(base, out="runs/python").finished is not None


def test_words_in_python_that_are_no_tasks_or_options(here, base):
    with pytest.raises(gf.ConfigError, match=r"'clasify' is not a task.*did you mean classify"):
        gf.train("clasify", "my.csv", base=base)
    with pytest.raises(gf.ConfigError, match=r"no option 'lable'; did you mean label\?"):
        trained(base, lable="mood")


def test_predictions_stand_beside_the_columns_of_the_user(glassformer, here, base):
    trained(base, out="runs/mine")
    rows = [{"label": "mine", "text": "x", "review": row["review"]} for row in ROWS[:3]]
    Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Path("new.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), delimiter=";")
        table.writeheader()
        table.writerows(rows)
    code, shown, said = glassformer("classify", "runs/mine", "new.csv", "--out", "out.csv")
    assert code == 0 and not shown and "3 rows are in out.csv" in said
    with Path("out.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [{k: row[k] for k in rows[0]} for row in found] == rows
    answers = gf.load("runs/mine").classify([row["review"] for row in rows])
    assert [row["predicted_label"] for row in found] == [one.label for one in answers]
    assert list(found[0]) == ["label", "text", "review", "predicted_label", "probability"]
    code, _, said = glassformer("classify", "runs/mine", "new.csv", "--out", "out.csv")
    assert code == 1 and "out.csv exists" in said
    code, _, said = glassformer("classify", "runs/mine", "new.csv", "--out", "out.txt")
    assert code == 1 and "must end in .csv, .tsv or .jsonl" in said
    Path("bad.csv").write_text("review,day\nA film.,1\n,2\n")
    code, _, said = glassformer("classify", "runs/mine", "bad.csv", "--out", "bad-out.csv")
    assert code == 1 and "bad.csv:3" in said and not Path("bad-out.csv").exists()


def test_predictions_keep_every_column(glassformer, here, base):
    trained(base, out="runs/mine")
    Path("new.csv").write_text("where,review\nOslo,A film.\n")
    code, _, said = glassformer("classify", "runs/mine", "new.csv", "--out", "out.csv")
    assert code == 0, said
    assert Path("out.csv").read_text().startswith("where,review,label,probability\nOslo,A film.,")
    rows = [{"review": "A film.", "tags": ["a", "b"], "none": None}, {"review": "A bore."}]
    Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, _, said = glassformer("classify", "runs/mine", "new.jsonl", "--out", "lists.csv")
    with Path("lists.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [(row["tags"], row["none"]) for row in found] == [('["a", "b"]', ""), ("", "")], said
    Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[::-1]))
    code, _, said = glassformer("classify", "runs/mine", "new.jsonl", "--out", "more.csv")
    assert code == 1 and "new.jsonl:2 has the column 'tags'" in said
    assert not Path("more.csv").exists()


def test_tables_of_any_notation_are_classified_and_judged(glassformer, here, base):
    texts = [(f"{text}, “{i}”", mood) for i, (text, mood) in enumerate(map(dict.values, ROWS))]
    lines = "".join(f"{text};{mood}\n" for text, mood in texts)
    Path("my.csv").write_bytes(lines.encode("cp1252"))
    run = trained(base, out="runs/mine")
    code, _, said = glassformer("classify", "runs/mine", "my.csv", "--out", "out.csv")
    assert code == 0 and "my.csv is read as cp1252" in said and "has no header" in said, said
    with Path("out.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert [(row["column 1"], row["column 2"]) for row in found] == texts
    assert [row["label"] for row in found] == [
        one.label for one in run.load().classify([text for text, _ in texts])
    ]
    assert run.load().evaluate("my.csv").records == len(texts)


def test_results_are_rows_of_a_table(here, base):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    model = trained(base, frame, text="review", label="mood").load()
    results = model.classify(frame["review"])
    assert isinstance(results, list) and len(results) == 20
    found = pandas.DataFrame(results)
    assert list(found["label"]) == [one.label for one in results]
    assert list(found["probability"]) == [one.probability for one in results]
    with pytest.raises(gf.InputError, match=r"columns review, mood; .* such as \['review'\]"):
        model.classify(frame)


def test_a_column_and_invalid_texts_in_python(here, base):
    model = trained(base).load()
    column = Frame(ROWS)["review"]
    assert model.classify(column) == model.classify(column.values)
    with pytest.raises(gf.InputError, match=r"columns review, mood; give the column"):
        model.classify(Frame(ROWS))
    texts = ["A film.", 3, "A bore.", None]
    with pytest.raises(gf.GlassformerError):
        model.classify(texts)
    found = model.classify(texts, on_error="skip")
    assert found == model.classify([texts[0], texts[2]]) and list(found.skipped) == [1, 3]


def test_numbers_are_predicted_as_numbers(glassformer, here, base):
    rows = [{**row, "mood": i / 7} for i, row in enumerate(ROWS)]
    run = trained(base, rows, out="runs/number")
    model = run.load()
    (found,) = model.classify(["A film."])
    wanted = model(model.tokenizer("A film.", return_tensors="pt")["input_ids"])
    assert found.value == pytest.approx(float(wanted.logits[0, 0]), abs=1e-5)
    assert found.label is None and math.isnan(found.probability)
    code, shown, _ = glassformer("classify", "runs/number", "A film.", "--json")
    assert code == 0 and json.loads(shown)["value"] == pytest.approx(found.value)


def test_lora_runs_are_used_by_their_folder_alone(here, base):
    run = trained(base, out="runs/lora", lora=True)
    assert sorted(gf.load("runs/lora").classify("A film.").probabilities) == ["bad", "good"]
    assert (run.model / "adapter_config.json").exists()


def test_a_classification_holds_its_first_label():
    found = Classification(("b", "a"), {"a": 0.6, "b": 0.7, "c": 0.1})
    assert (found.label, found.probability) == ("b", 0.7)
    nothing = Classification((), {"a": 0.2, "b": 0.1})
    assert (nothing.label, nothing.probability) == (None, 0.2)


def test_of_equal_evaluations_the_last_is_the_best_and_patience_runs_on():
    stopping, state = EarlyStopping("accuracy", 2), TrainState()
    for step, value in enumerate((0.5, 0.7, 0.7), 1):
        state.step = step
        stopping.update(state, value)
    assert (state.best_step, state.evaluations_since_best, state.stopped) == (3, 1, False)
    state.step = 4
    stopping.update(state, 0.6)
    assert state.best_step == 3 and state.stopped


def test_the_words_of_other_trainers_are_understood(glassformer):
    tables = {"model": {"preset": "gpt2"}, "data": {"train": "a.txt"}}
    recipe = read_recipe({**tables, "train": {"lr": 0.1, "num_train_epochs": 2}})
    assert recipe.train.learning_rate == 0.1 and recipe.train.epochs == 2
    assert find_objective("ner") is find_objective("tagging")
    assert find_objective("qa") is find_objective("span")
    assert objective_of("translation", True) == "sequence-to-sequence"
    assert objective_of("summarization", False) == "continuation"
    for word, verb in (("finetune", "train"), ("ner", "tag"), ("qa", "answer")):
        code, shown, _ = glassformer(word, "--help")
        assert code == 0 and declared_verbs()[verb].summary in " ".join(shown.split())
    code, _, said = glassformer("weather")
    assert code == 2 and "did you mean" not in said


def test_the_help_names_the_tasks_and_settings(glassformer):
    _, shown, _ = glassformer("train", "--help")
    for word in ("classify", "summarize", "--epochs", "--learning-rate", "--label", "--validation"):
        assert word in shown
