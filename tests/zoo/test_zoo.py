"""Built-in models: the settings in their cards that the page reads."""

from __future__ import annotations

import shutil

import pytest
import torch

import glassformer as gf
from glassformer import zoo
from glassformer.page import Session
from glassformer.page.handlers.models import models
from glassformer.page.handlers.text import read
from glassformer.page.model_sources import find_sources
from glassformer.page.request_args import RequestArgs


@pytest.mark.parametrize("name", zoo.names())
def test_every_model_has_samples_that_it_reads(name):
    session = Session([f"zoo:{name}"])
    model, samples = session.model(name), zoo.samples_of(name)
    assert samples
    for sample in samples:
        assert set(sample) <= {"text", "pair", "target"} and sample["text"]
        ids = model.tokenizer.encode(sample["text"], sample.get("pair")).ids
        assert len(ids) > 3 and model.tokenizer.special.get("unk") not in ids
        told = read(session, RequestArgs({"model": name, **sample}))
        assert any(told[stack] for stack in ("encoder", "decoder"))
    assert session.close()


def test_a_visitor_is_shown_all_of_them():
    names = zoo.for_a_visitor()
    assert sorted(names) == zoo.names()
    session = Session([f"zoo:{name}" for name in names])
    told = models(session, RequestArgs({}))
    assert [one["id"] for one in told["models"]] == names
    assert [one["examples"] for one in told["models"]] == [zoo.samples_of(one) for one in names]
    assert told["start"] == {"model": names[0], "output": None, **zoo.samples_of(names[0])[0]}
    assert session.close()


def test_cards_say_in_which_order_models_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "model_roots", lambda: [tmp_path])
    for name, front in {"a": "", "b": "shown: 2\n", "c": "", "d": "shown: 1\n"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "README.md").write_text(f"---\nlicense: mit\n{front}---\n# {name}\n")
    assert zoo.for_a_visitor() == ["d", "b", "a", "c"] and zoo.samples_of("a") == []
    broken = "---\nwidget:\n- text: plain\n---\n"
    (tmp_path / "a/README.md").write_text(broken)
    with pytest.raises(gf.GlassformerError, match="card of zoo:a are not one JSON object a line"):
        zoo.samples_of("a")


def test_a_model_with_its_recipe_beside_it_is_no_run(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(zoo.folder_of("shakespeare"), folder)
    (folder / "recipe.toml").write_text("")
    (source,) = find_sources([str(folder)])
    assert source.checkpoints == () and source.describe()[0] == "GPT2LMHeadModel"


def test_the_second_distribution_has_the_models_that_are_listed():
    second = [name for name, folder in zoo.folders().items() if folder.parent != zoo.HOME]
    assert tuple(second) == zoo.IN_DISTRIBUTION


def test_a_missing_distribution_is_named(monkeypatch, glassformer):
    monkeypatch.setattr(zoo, "model_roots", lambda: [zoo.HOME])
    message = "zoo:reader is in a package that is not installed; pip install glassformer-zoo."
    for name in ("zoo:reader", "reader"):
        with pytest.raises(gf.LoadError, match=message):
            gf.load(name)
    assert glassformer("classify", "zoo:reader", "a") == (1, "", f"error: {message}\n")
    with pytest.raises(gf.LoadError, match="did you mean zoo:shakespeare"):
        gf.load("shakspeare")
    assert "More models (reader, shakespeare): pip install glassformer-zoo" in glassformer("zoo")[1]


def test_versions(tmp_path, monkeypatch):
    assert zoo.folder_of("zoo:letters@0.1") == zoo.folder_of("letters")
    monkeypatch.setattr(zoo, "model_roots", lambda: [tmp_path])
    (tmp_path / "a").mkdir()
    (tmp_path / "a/config.json").write_text('{"model_type": "gpt2"}')
    front = "parameters: 1\nversion: 0.3\nreplaces: 0.1 0.2\n"
    (tmp_path / "a/README.md").write_text(f"---\n{front}---\n# a\n\nWrites English. Well.\n")
    with pytest.raises(gf.LoadError) as replaced:
        gf.load("zoo:a@0.1")
    assert str(replaced.value) == (
        "zoo:a@0.1 has been replaced by version 0.3 (Writes English); load zoo:a, or zoo:a@0.3."
    )
    with pytest.raises(
        gf.LoadError, match=r"@0.9 is not a version that ships; the version here is 0.3"
    ):
        gf.load("zoo:a@0.9")


def test_the_six_words_are_learned_step_by_step():
    model = gf.load("zoo:six")
    assert model.spec.decoder.embed.vocabulary == model.spec.lm_head.num_outputs == 6
    words = [model.tokenizer.token(id) for id in range(6)]
    assert words == ["<eos>", "a", "am", "i", "thanks", "student"]
    assert model.translate(["je suis étudiant", "Merci"])[0].text == "i am a student"
    steps = sorted((zoo.folder_of("six") / "steps").iterdir())
    assert [int(folder.name.removeprefix("step-")) for folder in steps] == [0, 5, 10, 20]
    chances = []
    for folder in (*steps, zoo.folder_of("six")):
        view = gf.load(folder).look("je suis étudiant", target="i am a student")
        logits = torch.as_tensor(view.logits.numpy())
        chances.append(logits.softmax(-1)[range(5), [3, 2, 1, 5, 0]].prod().item())
    assert chances == sorted(chances) and chances[0] < 0.01 and chances[-1] > 0.97
