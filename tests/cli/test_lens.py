"""glassformer lens: a tuned lens from files of texts, which the page finds with the model."""

from __future__ import annotations

import json

import pytest

import glassformer as gf
from glassformer.inside import TunedLens
from glassformer.inside.lens.tuned_lens import load_lens_of


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    gf.load("shakespeare").save(folder)
    return folder


def test_a_lens_lies_with_its_model_and_is_nearer_to_the_end(glassformer, model, tmp_path):
    lines = [f"ROMEO: Is the {what} so young?" for what in ("day", "night", "king") * 4]
    (tmp_path / "texts.txt").write_text("\n".join(lines))
    words = (
        "--file",
        str(tmp_path / "texts.txt"),
        "--max-steps",
        "8",
        "--tokens-per-batch",
        "64",
        "--json",
    )
    code, shown, _ = glassformer("lens", str(model), *words)
    assert code == 0
    rows = [json.loads(line) for line in shown.splitlines()]
    assert rows[0]["stage"] == "embedding" and len(rows) == 12
    assert all(row["tuned_lens"] < row["logit_lens"] for row in rows[:3])
    assert load_lens_of(model).facts.steps == 8


def test_a_text_on_the_command_line_and_a_folder_of_ones_own(glassformer, tmp_path):
    out = tmp_path / "mine"
    words = ("--max-steps", "2", "--out", str(out))
    code, shown, _ = glassformer("lens", "shakespeare", "To be, or not to be", *words)
    assert code == 0 and f"The lens is in {out}." in shown and "0 attention" in shown
    assert TunedLens.load(out).facts.steps == 2
    code, _, said = glassformer("lens", "shakespeare", "To be", "--max-steps", "1")
    assert code == 1 and "--out" in said


def test_a_lens_for_a_head_by_its_name(glassformer, tmp_path):
    words = ("lens", "zoo:reader", "Ada was born in London.", "--out", str(tmp_path / "lens"))
    code, _, _ = glassformer(*words, "--max-steps", "1", "--head", "entities")
    assert code == 0 and TunedLens.load(tmp_path / "lens").facts.head == "entities"
    code, _, said = glassformer(*words, "--head", "topic")
    assert code == 1 and "There is no head 'topic' that reads every position, only" in said
