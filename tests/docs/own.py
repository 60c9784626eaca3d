"""What pages take for granted: files and models of the reader's own."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import published

import glassformer as gf
from glassformer.adapters import LoRA
from glassformer.text import train as train_tokenizer
from glassformer.zoo import folder_of

LINE = "the king and a queen saw a man or a woman\n"
REVIEWS = [{"text": "Slow and dull.", "label": "bad"}, {"text": "A joy to read.", "label": "good"}]
RECIPE = """
[model]
preset = "gpt2"
num_layers = 1
num_heads = 2
hidden_size = 16
context_length = 16
[tokenizer]
type = "char"
[data]
train = "text.txt"
[train]
max_steps = 3
batch_size = 2
"""
SIZES = {
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "hidden_size": 16,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def built_in(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(folder_of("shakespeare"))


def labeled(folder: Path, kind: str, *labels: str) -> None:
    """A model that has a head for labels, and has learned nothing."""
    tokenizer = train_tokenizer("wordpiece", texts=[one["text"] for one in REVIEWS], vocab_size=60)
    names = {str(number): label for number, label in enumerate(labels)}
    gf.create(
        "bert-base",
        tokenizer=tokenizer,
        architectures=[f"BertFor{kind}Classification"],
        vocab_size=tokenizer.size,
        id2label=names,
        **SIZES,
    ).save(folder)


def page(root: Path) -> None:
    for name in ("my-checkpoint", "base", "fine-tuned"):
        built_in(root / name)
    model = gf.load(root / "base")
    model.adapters.add(LoRA(rank=1, target_modules=("c_attn",)))
    model.adapters.save(root / "my-lora")
    (root / "text.txt").write_text(LINE * 20)
    recipe = tomllib.loads(RECIPE)
    recipe["data"]["train"] = str(root / "text.txt")
    gf.train({**recipe, "run": {"out": str(root / "runs/my-run"), "snapshot_steps": 1}})


def generate(root: Path) -> None:
    published.t5(root / "path/to/t5")
    published.m2m100(root / "path/to/m2m100")
    published.whisper(root / "path/to/whisper")
    published.sound(root / "hello.wav")
    (root / "play.txt").write_text("To be, or not to be, that is the question. " * 9)
    (root / "in.jsonl").write_text(lines("ROMEO:", {"prompt": "KING:", "id": 7, "seed": 1}))


def transcribe(root: Path) -> None:
    published.whisper(root / "path/to/whisper")
    published.sound(root / "hello.wav")


def vectors(root: Path) -> None:
    (root / "text.txt").write_text(LINE * 20)
    (root / "questions.txt").write_text(": family\nman king woman queen\n")
    (root / "pairs.tsv").write_text("king\tqueen\t8\nking\tor\t1\n")


def recipes(root: Path) -> None:
    labeled(root / "runs/classify/clinc150/model", "Sequence", "bad", "good")
    scope = root / "data/classify/clinc150/scope.jsonl"
    scope.parent.mkdir(parents=True)
    scope.write_text(lines(*REVIEWS, {"text": "What is this?", "label": None}))


def train(root: Path) -> None:
    published.whisper(root / "whisper-tiny")
    published.sound(root / "clip.wav")
    (root / "data.csv").write_text("audio,text\n" + "clip.wav,Ja.\n" * 12)


MADE = {
    "docs/page.md": page,
    "docs/generate.md": generate,
    "docs/transcribe.md": transcribe,
    "docs/vectors.md": vectors,
    "docs/recipes.md": recipes,
    "docs/train.md": train,
}


def own_files(name: str, root: Path) -> None:
    if name in MADE:
        MADE[name](root)
