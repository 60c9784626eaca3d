"""Recipes: read, overridden, checked, filled, written and read back."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import TrainingArguments

from glassformer.adapters.settings import KINDS as ADAPTERS
from glassformer.data import DataSettings, Records
from glassformer.errors import ConfigError, GlassformerError
from glassformer.train import recipe_text
from glassformer.train.objectives.registry import objective_names, options_of
from glassformer.train.recipe import TABLES, differences, read_recipe
from glassformer.train.renamed_keys import RENAMED_KEYS, RENAMED_OPTIONS
from glassformer.train.stored_recipe import read_stored_recipe
from glassformer.train.trainer import with_objective_defaults

RECIPE = """
[model]
preset = "gpt2"              # a preset to create, or base = "..." to start from a checkpoint
num_layers = 4
num_heads = 4
hidden_size = 128
context_length = 256
[tokenizer]
type = "char"                # or a folder; or type = "bpe", vocab_size = 8000 trained on the data
[data]
format = "text"
train = "train.txt"
validation = "valid.txt"
[objective]
name = "causal-lm"
[train]
max_steps = 2000
batch_size = 32
gradient_accumulation_steps = 1
learning_rate = 1e-3
seed = 1
save_steps = 200
[run]
out = "runs/shakespeare"
"""
LEAST = {"model": {"preset": "gpt2"}, "data": {"train": "a.txt"}}


def test_what_a_file_leaves_out_is_filled(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    recipe = read_recipe(path)
    assert recipe.model.num_layers == 4 and recipe.model.base is None
    assert recipe.data.train == (str(tmp_path / "train.txt"),)
    assert recipe.objective[0].name == "causal-lm"
    assert recipe.train.learning_rate == 1e-3 and recipe.train.optimizer == "adamw"
    assert recipe.run.out == str(tmp_path / "runs/shakespeare")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"objective": {"name": "masked-lm"}},
        {"objective": [{"name": "causal-lm", "weight": 2}, {"name": "causal-lm", "rate": 0.5}]},
        {"data": {"train": ["a b.txt", 'q"uo\\te.txt'], "columns": {"text": "the text\n"}}},
        {"model": {"preset": "gpt2", "config": {"a": [1, 2.5], "b": {"c": True}}}},
        {"adapter": {"type": "lora", "rank": 8}, "train": {"learning_rate": 1, "eps": 1e-12}},
    ],
)
def test_a_filled_recipe_is_equal_when_read_back(more):
    recipe = with_objective_defaults(read_recipe({**LEAST, **more}))
    again = read_recipe(tomllib.loads(recipe.text()))
    assert again == recipe
    assert again.text() == recipe.text()
    assert differences(recipe, again) == []


def test_overrides_are_values_of_toml():
    recipe = read_recipe(
        {**LEAST, "objective": [{"name": "causal-lm"}, {"name": "masked-lm"}]},
        [
            "train.learning_rate=6e-4",
            "train.compile = true",
            'data.validation=["v.txt", "w.txt"]',
            "tokenizer.type=bpe",
            "model.config.n_inner=64",
            "objective.1.mlm_probability=0.3",
        ],
    )
    assert recipe.train.learning_rate == 6e-4 and recipe.train.compile is True
    assert recipe.data.validation == ("v.txt", "w.txt")
    assert recipe.tokenizer.type == "bpe"
    assert recipe.model.config == {"n_inner": 64}
    assert recipe.objective[1].options == {"mlm_probability": 0.3}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "train.step=3",
            "The table [train] of the recipe has no key 'step'; did you mean 'max_steps'",
        ),
        ("trian.steps=3", "The recipe has no table 'trian'; did you mean 'train'?"),
        ("train.max_steps=many", "train.max_steps is 'many'; it must be a whole number."),
        ("train.max_steps=2.5", "train.max_steps is 2.5; it must be a whole number."),
        ("train.max_steps=true", "train.max_steps is True; it must be a whole number."),
        ("train.max_steps=0", "train.max_steps is 0; it must be at least 1."),
        ("train.learning_rate=fast", "train.learning_rate is 'fast'; it must be a number."),
        ("train.learning_rate=0", "train.learning_rate is 0.0; it must be more than 0.0."),
        (
            "train.ema_decay=1.5",
            "train.ema_decay is 1.5; it must be at least 0.0 and less than 1.0.",
        ),
        ("train.compile=1", "train.compile is 1; it must be true or false."),
        (
            "train.precision=bfloat61",
            "train.precision is 'bfloat61'; it must be one of float32, bfloat16, float16 "
            "(did you mean 'bfloat16'?).",
        ),
        ("data.columns=a", "data.columns is 'a'; it must be a table."),
        ("data.columns.text=1", "data.columns.text is 1; it must be a text."),
        ("model.base=x", "Give one of model.preset "),
        ("data.train=[]", "data.train names no file to train on."),
        ("steps=3", "A setting is given as section.key=value, not as 'steps=3'."),
        ("train.max_steps", "A setting is given as section.key=value, not as 'train.max_steps'."),
        ("model.preset.x=1", "model.preset.x: 'preset' is a value"),
        ("adapter.rank=1", "The recipe lacks adapter.type."),
        ("objective.name=causal-ml", "did you mean 'causal-lm'?"),
        (
            "objective.memory_length=long",
            "objective.memory_length is 'long'; it must be a whole number.",
        ),
    ],
)
def test_what_does_not_fit_is_named(word, said):
    with pytest.raises(GlassformerError, match=re.escape(said)):
        with_objective_defaults(read_recipe(LEAST, [word]))


@pytest.mark.parametrize(
    ("train", "steps"),
    [
        ({}, 100),  # of 1000
        ({"max_steps": 30}, 3),
        ({"max_steps": 31}, 4),
        ({"max_steps": 1}, 1),
        ({"max_steps": 30, "warmup_ratio": 0.5}, 15),
        ({"max_steps": 30, "warmup_ratio": 0}, 0),
        ({"max_steps": 30, "warmup_steps": 100}, 100),
        ({"max_steps": 30, "warmup_steps": 0}, 0),
    ],
)
def test_the_warm_up_is_a_share_of_the_steps_unless_steps_are_given(train, steps):
    recipe = read_recipe({**LEAST, "train": train})
    assert recipe.train.num_warmup_steps == steps
    ratio = recipe.train.warmup_ratio
    theirs = SimpleNamespace(warmup_steps=train.get("warmup_steps", ratio))  # a share below 1
    assert TrainingArguments.get_warmup_steps(theirs, recipe.train.max_steps) == steps


def test_the_warm_up_is_said_once():
    with pytest.raises(GlassformerError, match=r"one of train.warmup_steps and train.warmup_ratio"):
        read_recipe({**LEAST, "train": {"warmup_steps": 3, "warmup_ratio": 0.2}})


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(GlassformerError, match="cannot be read: No such file"):
        read_recipe(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[model\n")
    with pytest.raises(GlassformerError, match="is not TOML"):
        read_recipe(tmp_path / "bad.toml")


def test_what_makes_another_run():
    """Where and how it is run does not."""
    one = read_recipe(LEAST)
    same = read_recipe(one, ["run.out=elsewhere", "scale.device=cpu", "data.num_workers=3"])
    assert differences(one, same) == []
    other = read_recipe(one, ["train.max_steps=7", "model.num_layers=3"])
    assert differences(one, other) == [
        "train.max_steps: 1000 there, 7 here",
        "model.num_layers: None there, 3 here",
    ]


@pytest.mark.parametrize("form", ["toml", "json"])
def test_a_recipe_that_is_written_is_what_it_was(form, monkeypatch):
    value = {
        "a": {"text": 'tab\t "quoted" \\ \x7f \x01 日本', "n": -3, "x": 1e300, "inf": float("inf")},
        "b c": {"list": [1, [2, 3]], "none": None, "deep": {"er": {"k": False}}},
        "many": [{"a": 1, "in": {"x": [1]}}, {"b": "2"}],
    }
    if form == "json":
        monkeypatch.setattr(recipe_text, "find_spec", lambda name: None)
    assert recipe_text.recipe_format() == form
    loads = {"toml": tomllib.loads, "json": json.loads}[form]
    read = loads(recipe_text.write_recipe(value))
    del value["b c"]["none"]
    assert read == value
    with pytest.raises(ConfigError, match="cannot be written"):
        recipe_text.write_recipe({"a": {"b": object()}})


def test_a_recipe_in_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.json").write_text(json.dumps(LEAST))
    assert read_recipe("recipe.json") == read_recipe(LEAST)
    (tmp_path / "recipe.json").write_text("[1")
    with pytest.raises(ConfigError, match="is not JSON"):
        read_recipe(tmp_path / "recipe.json")
    (tmp_path / "recipe.json").write_text("[1]")
    with pytest.raises(ConfigError, match="is not a JSON object"):
        read_recipe(tmp_path / "recipe.json")


def test_the_guide_names_every_key_and_its_default():
    guide = (Path(__file__).parent.parent.parent / "docs" / "train.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| (?:`(.*?)`)? *\|", guide, re.MULTILINE))
    tables = read_recipe({**LEAST, "adapter": {"type": "lora"}}).tables()
    for name, kind in TABLES.items():
        for key in kind.__dataclass_fields__:
            if key == "options" or (name, key) in [("model", "preset"), ("data", "train")]:
                continue
            assert f"{name}.{key}" in rows, f"docs/train.md does not name {name}.{key}"
            default = tables[name].get(key)
            said = rows[f"{name}.{key}"]
            if default in (None, (), {}) or name == "adapter":
                assert said == "", f"{name}.{key}"
            else:
                assert tomllib.loads(f"x = {said}")["x"] == _listed(default), f"{name}.{key}"


def _listed(value):
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("train.steps=3", "train.steps is now train.max_steps."),
        ("data.arrange=pack", "data.arrange is now data.batching."),
        ("model.settings.n_inner=64", "model.settings is now model.config."),
        ("run.folder=here", "run.folder is now run.out."),
        ("objective.memory=3", "objective.memory is now objective.memory_length."),
    ],
)
def test_an_old_key_names_the_new_one(word, said):
    with pytest.raises(GlassformerError, match=re.escape(said)):
        with_objective_defaults(read_recipe(LEAST, [word]))


def test_every_new_key_is_a_key():
    for old, new in RENAMED_KEYS.items():
        table = old.partition(".")[0]
        known = {each.name for each in fields(TABLES[table])}
        if table == "adapter":
            known |= {each.name for kind in ADAPTERS.values() for each in fields(kind)}
        assert new in known and old.partition(".")[2] not in known
    options = {option for name in objective_names() for option in options_of(name)}
    assert set(RENAMED_OPTIONS.values()) <= options
    assert not set(RENAMED_OPTIONS) & options


def test_paths_in_a_file_are_relative_to_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("project/recipe.toml")
    path.parent.mkdir()
    (path.parent / "base").mkdir()
    path.write_text(
        '[model]\nbase = "base"\n[data]\ntrain = ["../a.txt", "/b.txt", "c/*.txt"]\n'
        'validation = 0.1\n[tokenizer]\nfolder = "zoo:letters"\n[run]\nout = "runs/one"\n'
    )
    recipe = read_recipe(path, ["data.test=here.txt"])
    assert recipe.model.base == "project/base"
    assert recipe.data.train == ("a.txt", "/b.txt", "project/c/*.txt")
    assert recipe.data.test == ("here.txt",) and recipe.tokenizer.folder == "zoo:letters"
    assert recipe.run.out == "project/runs/one"
    stored = Path(recipe.run.out) / "recipe.toml"
    stored.parent.mkdir(parents=True)
    stored.write_text(recipe.text(stored.parent))
    assert 'out = "."' in stored.read_text() and '"../../../a.txt"' in stored.read_text()
    assert read_stored_recipe(stored) == recipe
    monkeypatch.chdir("project")
    other = read_recipe("recipe.toml", ["data.test=../here.txt"])
    assert other.data.train == ("../a.txt", "/b.txt", "c/*.txt")
    assert differences(read_stored_recipe(Path("runs/one/recipe.toml")), other) == []


def test_the_format_is_that_of_the_file(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "a.txt").write_text("y")
    files = (str(tmp_path / "a.jsonl"), str(tmp_path / "a.txt"))
    found = [record["text"] for record in Records(DataSettings(train=files), "train")]
    assert found == ["x", "y"]
