"""glassformer zoo: every listed model can be loaded by its name."""

from __future__ import annotations

import json

import pytest
import torch

import glassformer as gf
from glassformer.weights.quantization import count_parameters
from glassformer.zoo import folder_of, names
from glassformer.zoo.published import REAL


@pytest.mark.parametrize("name", names())
def test_what_is_listed_is_what_is_loaded(glassformer, name):
    listed = {one["name"]: one for one in json.loads(glassformer("zoo", "--json")[1])}
    assert list(listed) == [*names(), *(f"real:{one}" for one in REAL)]
    one, model = listed[name], gf.load(f"zoo:{name}")
    assert one["parameters"] == count_parameters(model)
    assert one["kind"] == model.architecture
    files = [path for path in folder_of(name).rglob("*") if path.is_file()]
    assert one["size"] == sum(len(path.read_bytes()) for path in files)
    assert one["license"] != "unknown" and one["about"].endswith(".")


def test_a_table_and_what_fits_a_narrow_window(
    glassformer, monkeypatch, capsys, terminal, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, wide, _ = glassformer("zoo")
    ours, others = wide.split("\n\n")[:2]
    title, head, *rows = ours.splitlines()
    assert code == 0 and len(rows) >= len(names()) and title == "Built-in models"
    assert head.split() == [
        *("name", "kind", "parameters", "size", "license", "version", "what", "it", "does")
    ]
    assert "2,915,328" in wide and "Writes lines that look like Shakespeare's." in wide
    assert others.count("not downloaded") == len(REAL)
    assert wide.endswith("To download a model: glassformer fetch NAME\n")
    import sys

    from glassformer.cli import main

    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "argv", ["glassformer", "zoo"])
    with pytest.raises(SystemExit):
        main()
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 40
    assert "2,915,328 parameters" in narrow and "apache-2.0" in narrow


def test_whether_published_weights_are_here(glassformer, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "glassformer/real/microformer"
    folder.mkdir(parents=True)
    listed = {one["name"]: one["path"] for one in json.loads(glassformer("zoo", "--json")[1])}
    assert listed["real:microformer"] == str(folder) and listed["real:rxnfp"] is None
    here, missing = (glassformer("zoo", f"real:{name}")[1] for name in ("microformer", "rxnfp"))
    assert here.startswith("# real:microformer\n\nContinues") and f"Path: {folder}\n" in here
    assert missing.endswith("Not downloaded yet: `glassformer fetch rxnfp`\n")


def test_a_card(glassformer):
    code, shown, _ = glassformer("zoo", "shakespeare")
    assert code == 0 and shown.startswith("# shakespeare\n\nWrites lines")
    assert glassformer("zoo", "zoo:shakespeare")[1] == shown
    assert json.loads(glassformer("zoo", "shakespeare", "--json")[1])["card"] == shown


def test_a_name_that_the_zoo_does_not_know(glassformer):
    near = "There is no model 'shakespear' in the zoo; did you mean shakespeare?"
    assert glassformer("zoo", "shakespear") == (1, "", f"error: {near}\n")
    with pytest.raises(gf.GlassformerError, match=r"'x' in the zoo; there are: .*shakespeare"):
        gf.load("zoo:x")
    with pytest.raises(gf.GlassformerError, match="no folder shakspeare; did you mean zoo:shakes"):
        gf.load("shakspeare")
    code, _, said = glassformer("inspect", "zoo:shakespear")
    assert code == 1 and near in said


def test_a_folder_of_the_same_name_goes_first_and_zoo_says_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zoo = gf.load("zoo:shakespeare")
    tokens = torch.tensor([[1, 2, 3]])
    assert torch.equal(gf.load("shakespeare")(tokens).logits, zoo(tokens).logits)
    (tmp_path / "shakespeare").mkdir()
    with pytest.raises(gf.GlassformerError, match=r"no config.json; the zoo's.* zoo:shakespeare\."):
        gf.load("shakespeare")
    gf.create("gpt2", n_embd=16, n_layer=1, n_head=2, vocab_size=50).save("shakespeare")
    assert gf.load("shakespeare").spec.decoder.width == 16
    assert gf.load("zoo:shakespeare").spec.decoder.width == 192
