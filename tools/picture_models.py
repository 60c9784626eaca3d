"""Three small models for the pictures of docs/page.md, each learned in about a minute on one core.

    python tools/picture_models.py

They stand in build/pictures and are made once. Their text is written here by rules, so that what
they have learned can be seen: an encoder that guesses words from far away, a translator that puts
words in another order, and the built-in Shakespeare on its way to modern English, step by step.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import glassformer as gf

FOLDER = Path(__file__).parent.parent / "build" / "pictures"

# French, English, whether it is feminine
NOUNS = [
    ("chat", "cat", False),
    ("chien", "dog", False),
    ("livre", "book", False),
    ("robot", "robot", False),
    ("train", "train", False),
    ("voiture", "car", True),
    ("maison", "house", True),
    ("table", "table", True),
    ("fleur", "flower", True),
    ("souris", "mouse", True),
]
# masculine, feminine, English
ADJECTIVES = [
    ("noir", "noire", "black"),
    ("vert", "verte", "green"),
    ("rouge", "rouge", "red"),
    ("lent", "lente", "slow"),
    ("rapide", "rapide", "fast"),
    ("fatigué", "fatiguée", "tired"),
]
VERBS = [("voit", "see"), ("aime", "love"), ("cherche", "want"), ("suit", "follow")]
WORK = [("étudiant", "student"), ("médecin", "doctor"), ("poète", "poet"), ("pilote", "pilot")]
PERSONS = [("je suis", "i am"), ("tu es", "you are"), ("il est", "he is"), ("elle est", "she is")]

LIVING = {"animal": "tired hungry old", "dog": "hungry tired slow", "robot": "slow old heavy"}
PATHS = {"street": "wide long busy", "river": "wide deep cold", "bridge": "narrow long steep"}
ORDERS = ["orders", "rules", "words"]
FLIERS = [("time flies", "an arrow"), ("news flies", "a bird"), ("a ball flies", "an arrow")]
EATERS = [("fruit flies", "a banana"), ("horses", "an apple"), ("children", "a cake")]


def french(draw: random.Random) -> tuple[str, str]:
    """A sentence and its translation: adjectives stand behind nouns, negation around verbs."""
    if draw.random() < 0.3:
        person, work = draw.choice(PERSONS), draw.choice(WORK)
        return f"{person[0]} {work[0]}", f"{person[1]} a {work[1]}"

    def thing() -> tuple[str, str, bool]:
        noun, english, feminine = draw.choice(NOUNS)
        adjective = draw.choice(ADJECTIVES)
        article = "la" if feminine else "le"
        if draw.random() < 0.3:
            return f"{article} {noun}", f"the {english}", feminine
        return f"{article} {noun} {adjective[feminine]}", f"the {adjective[2]} {english}", feminine

    first, second = thing(), thing()
    if draw.random() < 0.3:
        adjective = draw.choice(ADJECTIVES)
        return f"{first[0]} est {adjective[first[2]]}", f"{first[1]} is {adjective[2]}"
    verb = draw.choice(VERBS)
    if draw.random() < 0.4:
        return (
            f"{first[0]} ne {verb[0]} pas {second[0]}",
            f"{first[1]} does not {verb[1]} {second[1]}",
        )
    return f"{first[0]} {verb[0]} {second[0]}", f"{first[1]} {verb[1]}s {second[1]}"


def english(draw: random.Random) -> str:
    """Sentences of which a word tells another far away."""
    kind = draw.randrange(4)
    if kind == 0:
        return " like ".join(draw.choice(FLIERS))
    if kind == 1:
        return " like ".join(draw.choice(EATERS))
    if kind == 2:
        order = draw.choice(ORDERS)
        return f"a robot must obey the {order} given it by human beings"
    living, path = draw.choice(list(LIVING)), draw.choice(list(PATHS))
    who, end = draw.choice([(living, "went home"), (path, "stayed empty")])
    about = draw.choice((LIVING | PATHS)[who].split())
    start = f"the {living} didn't cross the {path} because it was too {about}"
    return f"{start} so the {who} {end}"


def modern(draw: random.Random) -> str:
    return f"The {draw.choice(NOUNS)[1]} is {draw.choice(ADJECTIVES)[2]}. {english(draw)}.\n"


def translator() -> dict[str, Any]:
    pairs = lines(french, 4000, "french")
    (FOLDER / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), "utf-8")
    return {
        "model": {
            "preset": "transformer-base",
            "layers": 2,
            "heads": 4,
            "width": 64,
            "ffn": 128,
            "context": 64,
            "dropout": 0.1,
        },
        "tokenizer": {"kind": "wordpiece", "size": 400, "special": {"pad": "[PAD]"}},
        "data": {"format": "parallel", "train": str(FOLDER / "pairs.tsv")},
        "objective": {"name": "sequence-to-sequence"},
        "train": {"steps": 700, "batch": 32, "learning_rate": 3e-3},
    }


def masked() -> dict[str, Any]:
    path = FOLDER / "sentences.txt"
    path.write_text("\n".join(lines(english, 3000, "english")) + "\n", "utf-8")
    return {
        "model": {
            "preset": "bert-base",
            "architecture": "BertForMaskedLM",
            "layers": 4,
            "heads": 4,
            "width": 64,
            "ffn": 128,
            "context": 64,
            "dropout": 0.0,
        },
        "tokenizer": {"kind": "wordpiece", "size": 300, "lowercase": True},
        "data": {"train": str(path), "documents": "lines"},
        "objective": {"name": "masked-lm"},
        "train": {"steps": 900, "batch": 32, "learning_rate": 2e-3},
    }


def learning() -> dict[str, Any]:
    path = FOLDER / "modern.txt"
    path.write_text("".join(lines(modern, 1500, "modern")), "utf-8")
    return {
        "model": {"folder": "shakespeare"},
        "data": {"train": str(path), "length": 64},
        "train": {"steps": 60, "batch": 8, "learning_rate": 5e-4, "warmup": 10},
        "run": {"keep_every": 10},
    }


def lines(write: Callable[[random.Random], Any], count: int, seed: str) -> list[Any]:
    draw = random.Random(seed)
    return [write(draw) for _ in range(count)]


RECIPES = {"translator": translator, "masked": masked, "modern-english": learning}


def make() -> dict[str, Path]:
    """The run folder of each, by its name; one that is whole stays as it is."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = {}
    for name, recipe in RECIPES.items():
        made[name] = FOLDER / name
        if not (made[name] / "finished.json").exists():
            tables = recipe()
            run = {"folder": str(made[name]), "tensorboard": False} | tables.pop("run", {})
            train = {"seed": 1, "evaluate_every": 0, "save_every": 0} | tables.pop("train")
            gf.train(tables | {"train": train, "run": run})
    return made


if __name__ == "__main__":
    for path in make().values():
        print(path)
