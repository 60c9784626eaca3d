"""glassformer evaluate: tables, JSON, and messages about invalid records."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from small_models import UNSEEN, reviews, train_classifier

import glassformer as gf

sys.path.insert(0, str(Path(__file__).parent.parent / "evaluate"))
import tiny_gpt2 as tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(train_classifier(tmp_path_factory.mktemp("reviews"), reviews()))


def written(path: Path, rows) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_table_for_people_and_json_for_programs(glassformer, model, tmp_path):
    rows = [{"text": text, "mood": label} for text, label in UNSEEN.items()]
    rows[0]["mood"] = "bad"
    words = "evaluate", model, written(tmp_path / "a.jsonl", rows), "--column", "label=mood"
    code, shown, _ = glassformer(*words)
    assert code == 0 and "classification" in shown and "6 records, 95% intervals" in shown
    cells = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.strip()}
    assert cells["accuracy"][0] == f"{5 / 6:.4f}"
    assert cells["bad"][-1] == "4"
    code, shown, _ = glassformer(*words, "--json", "--seed", "3", "--n-resamples", "50")
    found = json.loads(shown)
    wanted = gf.evaluate(model, words[2], columns={"label": "mood"}, seed=3, n_resamples=50)
    assert code == 0 and found == wanted.record()


def test_a_benchmark_by_name(glassformer, tmp_path):
    folder = tmp_path / "model"
    tiny.model().save(folder)
    rows = tiny.records()["arc_easy"][:6]
    words = "evaluate", str(folder), written(tmp_path / "arc.jsonl", rows), "--task", "arc_easy"
    found = json.loads(glassformer(*words, "--num-fewshot", "1", "--json")[1])
    wanted = gf.evaluate(folder, rows, "arc_easy", num_fewshot=1)
    assert found["metrics"] == wanted.record()["metrics"]
    code, shown, _ = glassformer(*words, "--limit", "4")
    assert code == 0 and "arc_easy (school science), 4 records" in shown
    assert glassformer(*words[:4], "arc-easy")[0] == 1


def test_standard_input(glassformer, model, tmp_path, monkeypatch):
    records = [{"text": text, "label": label} for text, label in UNSEEN.items()]
    rows = "".join(json.dumps(record) + "\n" for record in records)
    for form, content in (("jsonl", rows + "oops\n"), ("csv", "text,label\nFine,good\noops\n")):
        pipe = io.TextIOWrapper(io.BytesIO(content.encode()), "utf-8")
        monkeypatch.setattr(sys, "stdin", pipe)
        words = ("evaluate", model, "-", "--format", form, "--on-error", "skip", "--json")
        code, shown, said = glassformer(*words)
        found = json.loads(shown)
        assert code == 0 and found["records"] == (len(UNSEEN) if form == "jsonl" else 1)
        assert "standard input:" in said and "1 skipped" in said


def test_bad_records_stop_or_are_counted(glassformer, model, tmp_path):
    rows = [{"text": text, "label": label} for text, label in UNSEEN.items()]
    path = written(tmp_path / "a.jsonl", [*rows, {"text": "Fine.", "label": "fine"}])
    code, _, said = glassformer("evaluate", model, path)
    assert code == 1 and f"{path}:7" in said.replace("\n", "") and "'fine'" in said
    code, shown, said = glassformer("evaluate", model, path, "--on-error", "skip", "--json")
    assert code == 0 and json.loads(shown)["records"] == 6
    assert "6 used, 1 skipped." in said
    code, _, said = glassformer("evaluate", model, path, "--column", "label")
    assert code == 1 and "--column is written as" in said
