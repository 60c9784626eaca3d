"""Verbs over 2,000 texts of mixed length with a MiniLM-shaped model (6 x 384), float32, two cores,
beside the transformers pipeline, one text at a time and in batches, and for embeddings beside
sentence-transformers where it is installed:

    python bench/tasks.py [--task classify] [--kind short] [--rounds 3] [--texts 2000]

The texts are words of Python's own documentation, in no order of length: short ones, a headline to
a paragraph, and a quarter as many that are long, up to what the model reads. The ratio counts
against the fastest of the pipeline's ways, and of sentence-transformers'; that results are the same
is checked first.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import torch
import transformers
from timing import compared, in_turn, write

import glassformer as gf
from glassformer.text import train

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
ROLES = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
SIZES = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
}
BATCHES = (1, 8, 32)  # of the pipeline
SORTED_BATCHES = (8, 16, 32)  # of sentence-transformers, which sorts texts by their lengths


OURS = ("glassformer", "glassformer, packed")


def sentences() -> list[str]:
    text = "\n\n".join(topics[name] for name in sorted(topics))
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    return [block for block in blocks if len(block) >= 15]


@dataclass(frozen=True)
class Kind:
    """Of texts, by how many words they have: the logarithms' mean and deviation, and the most."""

    mean: float
    deviation: float
    most: int
    share: float  # of the texts that are asked for


KINDS = {"short": Kind(2.6, 0.8, 120, 1.0), "long": Kind(4.2, 1.0, 400, 0.25)}


def mixed(count: int, kind: Kind = KINDS["short"]) -> list[str]:
    rng = random.Random(1)
    words = re.findall(r"(?<!\S)[A-Za-z]{1,16}[,.;:]?(?!\S)", " ".join(sentences()))
    found = []
    for _ in range(round(count * kind.share)):
        size = min(int(rng.lognormvariate(kind.mean, kind.deviation)) + 2, kind.most)
        start = rng.randrange(len(words) - size)
        found.append(" ".join(words[start : start + size]))
    return found


def made(folder: Path, architecture: str, labels: int) -> gf.Model:
    tokenizer = train(
        "wordpiece", texts=sentences(), vocab_size=8000, lowercase=True, special_tokens=ROLES
    )
    names = {str(i): f"label-{i}" for i in range(labels)}
    model = gf.create(
        "bert-base",
        tokenizer=tokenizer,
        architectures=[architecture],
        vocab_size=tokenizer.size,
        id2label=names,
        label2id={name: int(i) for i, name in names.items()},
        **SIZES,
    )
    model.save(folder)
    return gf.load(folder)


@dataclass(frozen=True)
class Task:
    """A verb of ours and the pipeline's for the same; the two agree on what they are given."""

    architecture: str
    pipeline: str
    ours: Callable[[gf.Model, list[str]], Any]
    differ: Callable[[Any, Any], float]  # two results, how far they are apart
    labels: int = 4
    options: Mapping[str, Any] = field(default_factory=dict)  # of the pipeline
    another: Callable[[Path], Callable[..., Any]] | None = None  # side, where installed

    def sides(self, texts: list[str], folder: Path) -> dict[str, Callable[[], Any]]:
        plain = made(folder, self.architecture, self.labels)
        packed = gf.load(folder).pack()  # as the command line has it
        pipe = transformers.pipeline(self.pipeline, model=str(folder), **self.options)
        some = texts[:20]
        for ours in (plain, packed):
            pairs = zip(self.ours(ours, some), pipe(some), strict=True)
            assert max(self.differ(mine, theirs) for mine, theirs in pairs) < 1e-5
        peers = {
            f"transformers, batch {size}": partial(pipe, texts, batch_size=size) for size in BATCHES
        }
        if self.another is not None:
            other = self.another(folder)
            assert np.abs(other(some) - self.ours(plain, some)).max() < 1e-5
            peers |= {
                f"{self.another.__name__}, batch {size}": partial(other, texts, batch_size=size)
                for size in SORTED_BATCHES
            }
        return {
            **peers,
            **{
                name: partial(self.ours, model, texts)
                for name, model in zip(OURS, (plain, packed), strict=True)
            },
        }


def sentence_transformers(folder: Path) -> Callable[[list[str]], Any]:
    from sentence_transformers import SentenceTransformer, models

    body = models.Transformer(str(folder))
    return SentenceTransformer(modules=[body, models.Pooling(384)], device="cpu").encode


def probabilities(ours: Any, theirs: Any) -> float:
    return max(abs(ours.probabilities[row["label"]] - row["score"]) for row in theirs)


def first_tokens(ours: Any, theirs: Any) -> float:
    scores = {row["start"]: row["score"] for row in theirs}
    return max(abs(word.probability - scores[word.start]) for word in ours.words)


def means(ours: Any, theirs: Any) -> float:
    return float(np.abs(ours - np.mean(theirs[0], 0)).max())


TASKS = {
    "classify": Task(
        "BertForSequenceClassification",
        "text-classification",
        lambda model, texts: model.classify(texts),
        probabilities,
        options={"top_k": None},
    ),
    "tag": Task(
        "BertForTokenClassification",
        "token-classification",
        lambda model, texts: model.tag(texts),
        first_tokens,
    ),
    "embed": Task(
        "BertModel",
        "feature-extraction",
        lambda model, texts: model.embed(texts),
        means,
        another=sentence_transformers if find_spec("sentence_transformers") else None,
    ),
}
TASKS = {name: task for name, task in TASKS.items() if hasattr(gf.Model, name)}


def measure(task: str, kind: str, count: int, rounds: int) -> dict[str, Any]:
    texts = mixed(count, KINDS[kind])
    with tempfile.TemporaryDirectory() as folder:
        sides = TASKS[task].sides(texts, Path(folder))
        times = in_turn(sides, rounds=rounds, warm=0)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}

    def best(peer: str) -> str | None:
        mine = [name for name in sides if name.startswith(f"{peer}, ")]
        return min(mine, key=lambda name: medians[name], default=None)

    row = compared(f"{task}, {len(texts):,} {kind} texts", times, best("transformers") or "")
    row["texts_per_second"] = {name: round(len(texts) / s, 1) for name, s in medians.items()}
    other = best("sentence_transformers")
    if other is not None:
        row["over sentence_transformers"] = {
            name: round(medians[other] / medians[name], 3) for name in OURS
        }
        print(f"  over {other}: {row['over sentence_transformers']}")
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=[*TASKS], action="append")
    parser.add_argument("--kind", choices=[*KINDS], action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, default=2000)
    asked = parser.parse_args()
    torch.set_num_threads(2)
    for kind in asked.kind or KINDS:
        for task in asked.task or TASKS:
            row = measure(task, kind, asked.texts, asked.rounds)
            if asked.texts == 2000:
                write(__file__, [row], "what")


if __name__ == "__main__":
    main()
