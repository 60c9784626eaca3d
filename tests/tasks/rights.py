"""Tiny models that have learned the Universal Declaration of Human Rights (1948) by heart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import glassformer as gf

RIGHTS = [  # German, English, French, and what it is about
    (
        "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
        "All human beings are born free and equal in dignity and rights.",
        "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
        "We are born free.",
    ),
    (
        "Jeder hat das Recht auf Leben, Freiheit und Sicherheit der Person.",
        "Everyone has the right to life, liberty and security of person.",
        "Tout individu a droit à la vie, à la liberté et à la sûreté de sa personne.",
        "Everyone may live.",
    ),
    (
        "Jeder hat das Recht, überall als rechtsfähig anerkannt zu werden.",
        "Everyone has the right to recognition everywhere as a person before the law.",
        "Chacun a le droit à la reconnaissance en tous lieux de sa personnalité juridique.",
        "The law sees everyone.",
    ),
    (
        "Niemand darf willkürlich festgenommen, in Haft gehalten oder des Landes verwiesen werden.",
        "No one shall be subjected to arbitrary arrest, detention or exile.",
        "Nul ne peut être arbitrairement arrêté, détenu ou exilé.",
        "No arrest without a reason.",
    ),
    (
        "Jeder hat das Recht auf eine Staatsangehörigkeit.",
        "Everyone has the right to a nationality.",
        "Tout individu a droit à une nationalité.",
        "Everyone has a country.",
    ),
]
GERMAN, ENGLISH, FRENCH, ABOUT = (list(side) for side in zip(*RIGHTS, strict=True))
BOTH = {
    "preset": "transformer-base",
    "num_heads": 2,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_layers": 1,
}
ALONE = {"preset": "gpt2", "num_heads": 2, "hidden_size": 48, "num_layers": 2}


def learn(folder: Path, records: list[dict[str, str]], model: dict[str, Any], **tables: Any) -> Any:
    """A model trained by a recipe, read back from its folder."""
    folder.mkdir()
    data = folder / "train.jsonl"
    data.write_text("".join(json.dumps(one) + "\n" for one in records))
    recipe = {
        "model": {"context_length": 128, "dropout": 0.0, **model},
        "tokenizer": {"type": "bpe", "vocab_size": 300, **tables.pop("tokenizer", {})},
        "data": {"format": "jsonl", "train": [str(data)], "num_workers": 1},
        "train": {
            "max_steps": 90,
            "batch_size": len(records),
            "learning_rate": 6e-3,
            "warmup_steps": 10,
            "weight_decay": 0.0,
            "save_steps": 0,
            **tables.pop("train", {}),
        },
        "run": {"out": str(folder / "run"), "tensorboard": False},
        **tables,
    }
    return gf.load(gf.train(recipe, device="cpu").model)


def pairs(sources: list[str], targets: list[str], **more: str) -> list[dict[str, str]]:
    return [
        {"source": source, "target": target, **more}
        for source, target in zip(sources, targets, strict=True)
    ]
