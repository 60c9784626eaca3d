"""Recipes of training runs, up to the parts that they describe: model, objective, optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tomli_w

from glassformer import adapters
from glassformer.families import find_preset, spec_from_config
from glassformer.train.build_model import config_of
from glassformer.train.objectives.registry import make_objective
from glassformer.train.recipe import Recipe, read_recipe
from glassformer.train.schedules import schedule
from glassformer.train.stored_recipe import read_stored_recipe
from glassformer.train.trainer import with_objective_defaults
from glassformer.weights.mapping import build_transformer
from tests.fuzz.readers import _made
from tests.fuzz.registry import Sample, reader

FRESH = {
    "model": {"preset": "gpt2", "num_layers": 2, "num_heads": 2, "hidden_size": 16,
              "context_length": 32, "dropout": 0.1, "config": {"vocab_size": 300}},
    "tokenizer": {"type": "byte-bpe", "vocab_size": 300, "special_tokens": {"eos": "</s>"}},
    "data": {"train": ["a.txt"], "validation": 0.1, "sequence_length": 16},
    "objective": {"name": "causal-lm"},
    "train": {"max_steps": 10, "batch_size": 4, "gradient_accumulation_steps": 2, "seed": 3,
              "learning_rate": 1e-3, "betas": [0.9, 0.95], "warmup_steps": 2, "save_steps": 5},
    "run": {"out": "run", "snapshots": [1, 2], "logging_steps": 1},
}  # fmt: skip
TUNED = {
    "model": {"base": "model", "init_missing": ["score"], "labels": ["a", "b"]},
    "data": {"train": "a.jsonl", "columns": {"text": "words"}, "format": "jsonl"},
    "objective": [{"name": "causal-lm", "weight": 2.0}, {"name": "classification", "rate": 1}],
    "adapter": {"type": "lora", "rank": 4, "alpha": 8.0, "target_modules": ["c_attn"]},
    "train": {"epochs": 2.0, "optimizer": "muon", "lr_scheduler": "linear", "warmup_ratio": 0.2},
    "scale": {"device": "cpu", "timeout_minutes": 1.0},
}


def read(folder: Path) -> None:
    path = folder / "recipe.toml"
    recipe = with_objective_defaults(read_recipe(path))
    describe(recipe)
    read_recipe(recipe.tables())
    if (folder / "stored.toml").is_file():
        read_stored_recipe(folder / "stored.toml")


def describe(recipe: Recipe) -> None:
    """Makes what a run makes before its first step, except weights."""
    model = _made.decoder()
    if recipe.model.preset is not None:
        made = config_of(recipe.model, None)
        config = {**find_preset(recipe.model.preset), **made}
        build_transformer(spec_from_config(config, config["architectures"][0]))
    for one in recipe.objective:
        options = {k: v for k, v in one.options.items() if k not in ("weight", "rate")}
        if one.name == "causal-lm":
            make_objective(one.name, model, options, recipe.data.sequence_length)
    if recipe.adapter is not None:
        adapters.make(recipe.adapter.type, recipe.adapter.options, recipe.train.max_steps)
    if recipe.train.max_steps is not None:
        rate = schedule(recipe.train, 16)
        for step in (0, 1, recipe.train.max_steps - 1):
            assert 0 <= rate(step) < float("inf")


@reader("recipe.toml", read=read, weight=5)
def recipes() -> Iterator[Sample]:
    for tables in (FRESH, TUNED):
        content = tomli_w.dumps(tables).encode()
        yield Sample({"recipe.toml": content}, ("recipe.toml",))
