"""Small models that learn something within seconds, and the command line in this process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.cli import main

COLORS = {"sky": "blue", "grass": "green", "snow": "white", "coal": "black", "blood": "red"}
SAID = [
    f"the {thing} is {color} {end}"
    for thing, color in COLORS.items()
    for end in ("today", "again", "as always", "they say")
]
SPECIAL = {"mask": "[MASK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]"}
QUESTIONS = {
    "where is the key of the cellar": "The miller hid it under a stone beside the old well.",
    "who repaired the bridge": "Nine carpenters rebuilt it within a fortnight.",
    "what do herons eat": "Grey birds in shallow water live on fish and frogs.",
    "when does the market open": "Every Saturday at seven the farmers set up their stalls.",
    "how is bread baked": "Flour, water and salt rest for a night before they go into the oven.",
    "why did the dog bark": "A stranger had come through the orchard after dark.",
    "how long is the river": "From the spring to the sea it measures ninety miles.",
    "who wrote the letters": "Grandmother answered each of them by hand in blue ink.",
}


def recipe(folder: Path, name: str, **tables) -> dict:
    sizes = {
        "num_layers": 2,
        "num_heads": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "context_length": 32,
        "dropout": 0.0,
    }
    model = {"preset": "bert-base", **sizes, **tables.pop("model")}
    run = {"out": str(folder / name), "tensorboard": False}
    tables["train"] = {"warmup_steps": 10, "save_steps": 0, "seed": 1, **tables["train"]}
    return {"model": model, "run": run, **tables}


def colors(folder: Path) -> Path:
    """A masked language model that knows what color things have."""
    (folder / "colors.txt").write_text("\n".join(SAID), "utf-8")
    run = gf.train(
        recipe(
            folder,
            "colors",
            model={"architecture": "BertForMaskedLM"},
            tokenizer={"type": "word", "vocab_size": 100, "special_tokens": SPECIAL},
            data={
                "train": str(folder / "colors.txt"),
                "document_boundary": "line",
                "num_workers": 1,
            },
            objective={"name": "masked-lm", "mlm_probability": 0.4},
            train={"max_steps": 300, "batch_size": 20, "learning_rate": 6e-3},
        )
    )
    return run.model


def finder(folder: Path, **objective) -> Path:
    """A model whose vectors bring questions to their answers."""
    rows = [{"text": asked, "positive": said} for asked, said in QUESTIONS.items()]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    path = str(folder / "pairs.jsonl")
    run = gf.train(
        recipe(
            folder,
            "finder",
            model={"architecture": "BertModel"},
            tokenizer={
                "type": "wordpiece",
                "vocab_size": 200,
                "special_tokens": SPECIAL,
                "lowercase": True,
            },
            data={"format": "jsonl", "train": path, "validation": path, "num_workers": 1},
            objective={"name": "contrastive", **objective},
            train={"max_steps": 40, "batch_size": 8, "learning_rate": 2e-3, "eval_steps": 40},
        )
    )
    return run.model


@pytest.fixture
def command(monkeypatch, capsys):
    """Words come in; the exit code and both outputs go out."""

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["glassformer", *words])
        monkeypatch.setenv("COLUMNS", "140")
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call
