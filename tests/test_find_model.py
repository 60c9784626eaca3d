"""A source that is not a model is refused with an error that describes it."""

from __future__ import annotations

import pytest

import glassformer as gf
from glassformer.find_model import find_folder


def test_what_is_not_a_model(tmp_path):
    (tmp_path / "reviews.csv").write_text("text,label\n")
    with pytest.raises(gf.LoadError, match=r"reviews\.csv is not a file of a model \(\.gguf, "):
        gf.load(tmp_path / "reviews.csv")
    with pytest.raises(gf.LoadError, match=r"There is no file .*model\.gguf"):
        gf.load(tmp_path / "model.gguf")
    with pytest.raises(gf.LoadError, match=r"There is no folder .*runs/x; the zoo has"):
        gf.load(tmp_path / "runs/x")
    with pytest.raises(gf.LoadError, match=r"did you mean zoo:translator\?"):
        gf.load("translater")


def test_what_is_not_an_adapter(tmp_path):
    with pytest.raises(
        gf.LoadError, match="There is no folder none; name the folder of an adapter"
    ):
        gf.load("zoo:encoder", adapter="none")
    with pytest.raises(gf.LoadError, match=r"has no adapter_config\.json, so it is not an adapter"):
        gf.load("zoo:encoder", adapter=tmp_path)


def test_files_go_before_the_zoo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gf.create("gpt2", n_layer=1, n_embd=8, n_head=1, vocab_size=9, n_positions=8).save("encoder")
    assert find_folder("encoder").resolve() == tmp_path / "encoder"
    assert find_folder("zoo:encoder").parent.name == "zoo"
