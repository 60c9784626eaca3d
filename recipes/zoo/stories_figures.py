"""How zoo:stories is judged: how well it foresees stories, and what its own are like."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stories import CONTEXT, START, written

import glassformer as gf
from glassformer.model import Model

Figures = dict[str, Any]


def foreseen(models: Mapping[str, Model], texts: Sequence[str]) -> Figures:
    """By model, how well it foresees texts: nats and perplexity a token, bits a byte."""
    records = [{"text": text} for text in texts]
    found: Figures = {"stories": len(texts)}
    for name, model in models.items():
        metrics = gf.evaluate(model, records, "perplexity", n_resamples=0).metrics
        perplexity = metrics["perplexity"].value
        found[name] = {
            "perplexity": perplexity,
            "nats": math.log(perplexity),
            "bits_per_byte": metrics["bits_per_byte"].value,
        }
    return found


def tales(model: Model, count: int, seed: int) -> list[list[int]]:
    """The first story of each row that a model writes at temperature 1, as far as it has got."""
    device = next(model.parameters()).device
    start = torch.full((count, 1), START, device=device)
    draw = torch.Generator(device).manual_seed(seed)
    rows = written(model.eval(), start, CONTEXT, draw).tolist()
    return [row[1 : row.index(START, 1)] if START in row[1:] else row[1:] for row in rows]


def distinct(stories: Sequence[Sequence[int]], size: int) -> float:
    """The share of the runs of so many tokens, of all stories, that are different."""
    runs = [run for story in stories for run in runs_of(story, size)]
    return len(set(runs)) / len(runs)


def repeated(stories: Sequence[Sequence[int]], size: int) -> float:
    """The share of the runs of a story that it has had before."""
    every = [runs_of(story, size) for story in stories]
    return 1 - sum(len(set(runs)) for runs in every) / sum(map(len, every))


def runs_of(story: Sequence[int], size: int) -> list[tuple[int, ...]]:
    return list(zip(*(story[i:] for i in range(size)), strict=False))


@torch.inference_mode()
def surprise(judge: Model, stories: Sequence[Sequence[int]]) -> float:
    """The judge's perplexity of what another has written, the same vocabulary given."""
    device = next(judge.parameters()).device
    total = count = 0.0
    for story in stories:
        tokens = torch.tensor([[START, *story]], device=device)
        logits = judge(tokens[:, :-1]).logits
        assert logits is not None
        said = logits.float().log_softmax(-1).gather(-1, tokens[:, 1:, None])
        total, count = total + float(said.sum()), count + len(story)
    return math.exp(-total / count)


def writing(models: Mapping[str, Model], judge: Model, count: int, seed: int) -> Figures:
    found = {}
    for name, model in models.items():
        made = [story for story in tales(model, count, seed) if len(story) > 4]
        found[name] = {
            "stories": len(made),
            "tokens": float(np.mean([len(story) for story in made])),
            "distinct_2": distinct(made, 2),
            "distinct_3": distinct(made, 3),
            "repeated_4": repeated(made, 4),
            "teacher_perplexity": surprise(judge, made),
        }
    return found


def real_stories(path: Path, most: int) -> list[str]:
    """Whole ones: what stands behind the last mark may be cut off."""
    parts = path.read_text("utf-8").split("<|endoftext|>")[:-1]
    return [part.strip() for part in parts if part.strip()][:most]
