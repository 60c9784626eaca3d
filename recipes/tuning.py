"""What recipes/tuned.py compares: tasks, ways to tune, and the recipe of each."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import torch

from bench import ROOT
from glassformer.data.files import find_files
from glassformer.train.recipe import Recipe, read_recipe
from glassformer.zoo import published as real

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIDES = ("glassformer", "transformers")
MODES = {
    "full": (),
    "lora": ("adapter.type=lora", "adapter.rank=8", 'adapter.target_modules=["query","value"]'),
    "frozen": ("train.freeze_base=true",),
}
RATES = {"lora": 2e-3, "frozen": 5e-3}  # the recipes' own are for all weights
KINDS = {
    "classify": ("sst2", "banking77", "phrasebank", "ag_news", "chnsenticorp"),
    "entities": ("wnut17", "wikiann", "resume-ner"),
    "questions": ("squad",),
    "scope": ("clinc150",),
    "together": ("together",),
}
FIGURES = {"classify": "accuracy", "entities": "f1", "questions": "f1", "scope": "accuracy"}
ALONE = {  # models of one task beside together.toml: their part, class and figure there
    "topic": ("classification", "BertForSequenceClassification", "accuracy"),
    "sentiment": ("classification-2", "BertForSequenceClassification", "accuracy"),
    "names": ("tagging", "BertForTokenClassification", "f1"),
}
FETCHED = real.where("minilm") or real.cache_folder() / "minilm"  # by `glassformer fetch minilm`
MINILM = ROOT / "data" / "minilm"  # the same by recipes/gather.py, in half as many bytes
FEW = 60  # records of a file, where it only has to run
SHORT = ("train.max_steps=8", "train.warmup_steps=1")
TINY = (
    "model.num_layers=1",
    "model.num_heads=2",
    "model.hidden_size=16",
    "model.intermediate_size=32",
    "tokenizer.vocab_size=200",
)


def recipe_of(name: str, seed: int, mode: str = "full", few: bool = False) -> Recipe:
    """As the file has it, in that mode; or a few steps on a few of its texts. Nothing is chosen by
    validation files, so neither side reads them."""
    words = [
        "data.validation=[]",
        f"train.seed={seed}",
        "run.logging_steps=100",
        "run.tensorboard=false",
    ]
    own = f"-{os.getpid()}" if few else ""  # several processes may rehearse at once
    words += [*MODES[mode], f"run.out=runs/tuned/{name}-{mode}-{seed}{own}"]
    if DEVICE == "cuda":
        words.append("train.precision=bfloat16")
    if mode in RATES:
        words.append(f"train.learning_rate={RATES[mode]}")
    recipe = read_recipe(file_of(name))
    if recipe.model.base is not None:
        words.append(f"model.base={MINILM if MINILM.exists() else FETCHED}")
    if not few:
        return read_recipe(recipe, words)
    if DEVICE == "cpu":
        words += ["train.batch_size=6", *(TINY if recipe.model.base is None else ())]
    return cut(read_recipe(recipe, [*words, *SHORT]))


def file_of(name: str) -> Path:
    return next((ROOT / "recipes").glob(f"**/{name}.toml"))


def cut(recipe: Recipe) -> Recipe:
    """The same with a few records of every file to learn from, and the same ones as a test."""
    folder = Path("runs/few") / Path(recipe.run.out).name
    folder.mkdir(parents=True, exist_ok=True)
    made: list[str] = []
    for path in sorted(find_files(recipe.data.train)):
        made.append(str(folder / path.name))
        Path(made[-1]).write_text(few_of(path.read_text("utf-8"), path.suffix), "utf-8")
    return replace(recipe, data=replace(recipe.data, train=tuple(made), test=tuple(made)))


def few_of(text: str, suffix: str) -> str:
    if suffix == ".json":
        paragraphs = json.loads(text)["data"][0]["paragraphs"]
        return json.dumps({"data": [{"paragraphs": paragraphs[:FEW]}]})
    if suffix == ".jsonl":
        between, records = "\n", text.strip().split("\n")
    else:
        between, records = "\n\n", re.split(r"\n\s*\n", text.strip())
    return between.join(records[:: 1 + len(records) // FEW]) + between
