"""Small models for the tests of tasks, made on the fly."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import models

import glassformer as gf


def word_tokenizer(folder: Path, text: str, **settings: Any) -> gf.Tokenizer:
    """A vocabulary of the words of a text, framed as BERT's."""
    words = sorted(set(re.findall(r"\w+|[^\w\s]", text.lower())))
    return models.word_tokenizer(folder, words, lowercase=True, **settings)


def bert(tokenizer: gf.Tokenizer, kind: str = "SequenceClassification", **settings: Any) -> Any:
    labels = settings.pop("labels", ("bad", "good"))
    return gf.create(
        "bert-base",
        tokenizer=tokenizer,
        architectures=[f"BertFor{kind}"],
        vocab_size=tokenizer.size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        id2label={str(i): name for i, name in enumerate(labels)},
        label2id={name: i for i, name in enumerate(labels)},
        **settings,
    )


REVIEWS = {
    "good": [
        "A moving film with a wonderful cast.",
        "I loved every minute of it.",
        "The story is warm, funny and honest.",
        "Brilliant acting and a beautiful score.",
        "What a delightful and clever comedy!",
        "One of the best pictures of the year.",
        "The cast is brilliant and the jokes are funny.",
        "An honest, beautiful story that we loved.",
        "Clever, warm and wonderful.",
        "The best comedy that I saw this year.",
    ],
    "bad": [
        "A dull film with a terrible script.",
        "I hated every minute of it.",
        "The story is slow, boring and false.",
        "Awful acting and an ugly score.",
        "What a stupid and lifeless comedy!",
        "One of the worst pictures of the year.",
        "The cast is lifeless and the jokes are boring.",
        "A false, ugly story that we hated.",
        "Slow, stupid and terrible.",
        "The worst comedy that I saw this year.",
    ],
}
UNSEEN = {
    "A wonderful and funny story.": "good",
    "The acting is terrible and the film is boring.": "bad",
    "We loved the beautiful score.": "good",
    "Slow, ugly and dull!": "bad",
    "The worst script of the year, and an awful cast.": "bad",
    "Clever, honest and moving.": "good",
}


def train_classifier(
    folder: Path, rows: list[dict[str, Any]], steps: int = 60, **objective: Any
) -> Path:
    """A small encoder that has learned from these records in a few seconds; the model's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "train.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes = {
        "num_layers": 1,
        "num_heads": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "context_length": 32,
        "dropout": 0.0,
    }
    recipe = {
        "model": {
            "preset": "bert-base",
            "architecture": "BertForSequenceClassification",
            "config": {"classifier_dropout": 0.0},
            **sizes,
        },
        "tokenizer": {"type": "wordpiece", "vocab_size": 400, "lowercase": True},
        "data": {"format": "jsonl", "train": [str(data)], "num_workers": 1},
        "objective": {"name": "classification", **objective},
        "train": {
            "max_steps": steps,
            "batch_size": 20,
            "learning_rate": 5e-3,
            "warmup_steps": 5,
            "seed": 3,
        },
        "run": {"out": str(folder / "run"), "tensorboard": False},
    }
    return Path(gf.train(recipe).model)


def reviews() -> list[dict[str, Any]]:
    return [{"text": text, "label": label} for label in REVIEWS for text in REVIEWS[label]]
