"""Variants of one small model on the same text: validation loss during the first 160 steps.

    python bench/variants.py TEXT          # results in bench/variants.json
    python bench/variants.py --plot        # draws docs/images/variants.svg of them

A GPT-2 of 4 layers, 64 wide, predicts the next of 64 characters, and a BERT of the same size the
masked ones of 128. A variant changes one option of `gf.create` (or the warm-up). The last tenth of
the text is for validation. The same command continues where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch

import glassformer as gf
from glassformer.plotting import Panel, Series, draw

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "variants.json"
PLOT = ROOT / "docs" / "images" / "variants.svg"
SEEDS = (1,)
DECODER = {"preset": "gpt2", "num_layers": 4, "num_heads": 4, "hidden_size": 64,
           "context_length": 64, "dropout": 0.0,
           "config": {"initializer_range": 0.1}}  # fmt: skip
ENCODER = {**DECODER, "preset": "bert-base", "architecture": "BertForMaskedLM",
           "context_length": 128}  # fmt: skip
TRAIN = {"max_steps": 160, "batch_size": 8, "learning_rate": 3e-3, "warmup_ratio": 0.1,
         "eval_steps": 20, "save_steps": 0, "max_eval_batches": 10}  # fmt: skip


def placement(rate: float) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    warm = {"learning_rate": rate, "warmup_ratio": 0.16}
    cold = {"learning_rate": rate, "warmup_ratio": 0.0}
    return {
        "pre, warm-up": ({}, warm),
        "pre, no warm-up": ({}, cold),
        "post, warm-up": ({"norm_placement": "post"}, warm),
        "post, no warm-up": ({"norm_placement": "post"}, cold),
    }


VARIANTS: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "attention and norm": {
        "dot product, LayerNorm": ({}, {}),
        "additive attention": ({"attention": "additive"}, {}),
        "BatchNorm": ({"norm": "batch"}, {}),
    },
    "placement of the norm, rate 0.006": placement(6e-3),
    "placement of the norm, rate 0.01": placement(1e-2),
    "positions": {
        "learned": ({}, {}),
        "sinusoidal": ({"positions": "sinusoidal"}, {}),
        "sinusoidal-halves": ({"positions": "sinusoidal-halves"}, {}),
        "none": ({"positions": "none"}, {}),
    },
    "pattern (decoder)": {
        "all earlier tokens": ({}, {}),
        "window of 8": ({"window": 8}, {}),
        "window of 8, dilation 2": ({"window": 8, "dilation": 2}, {}),
    },
    "pattern (encoder)": {
        "all tokens": (ENCODER, {}),
        "window of 16": ({**ENCODER, "window": 16}, {}),
        "window of 16, dilation 2": ({**ENCODER, "window": 16, "dilation": 2}, {}),
        "blocks of 8 (BigBird)": ({**ENCODER, "block_sparse": 8}, {}),
    },
}


def losses(text: Path, model: dict[str, Any], train: dict[str, Any], seed: int) -> dict[str, float]:
    """Trains one model; returns the validation loss by step."""
    masked = model.get("preset") == "bert-base"
    with tempfile.TemporaryDirectory() as folder:
        whole = text.read_text("utf-8")
        edge = len(whole) * 9 // 10
        for name, part in (("train", whole[:edge]), ("valid", whole[edge:])):
            Path(folder, f"{name}.txt").write_text(part, "utf-8")
        run = gf.train(
            {
                "model": {**DECODER, **model},
                "tokenizer": {
                    "type": "char",
                    **({"special_tokens": {"mask": "[MASK]"}} if masked else {}),
                },
                "data": {
                    "train": f"{folder}/train.txt",
                    "validation": f"{folder}/valid.txt",
                    "sequence_length": {**DECODER, **model}["context_length"],
                },
                "objective": {"name": "masked-lm" if masked else "causal-lm"},
                "train": {**TRAIN, **train, "seed": seed},
                "run": {"out": f"{folder}/run", "tensorboard": False},
            },
            progress=False,
        )
        entries = map(json.loads, run.metrics_file.read_text("utf-8").splitlines())
        return {
            str(one["step"]): round(one["valid"]["loss"], 4) for one in entries if "valid" in one
        }


def measure(text: Path) -> None:
    known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"runs": {}}
    known |= {"torch": torch.__version__, "text": text.name, "train": TRAIN}
    for group, variants in VARIANTS.items():
        for name, (model, train) in variants.items():
            runs = known["runs"].setdefault(group, {}).setdefault(name, {})
            for seed in SEEDS:
                if str(seed) in runs:
                    continue
                same = measured_elsewhere(known["runs"], (model, train), str(seed))
                runs[str(seed)] = same or losses(text, model, train, seed)
                RESULTS.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
                print(group, name, seed, list(runs[str(seed)].values())[-1], flush=True)


def measured_elsewhere(runs: dict[str, Any], variant: Any, seed: str) -> dict[str, float] | None:
    """Returns the losses of a variant that another group has, too."""
    for group, variants in runs.items():
        for name, seeds in variants.items():
            if VARIANTS[group][name] == variant and seed in seeds:
                found: dict[str, float] = seeds[seed]
                return found
    return None


def plot() -> None:
    runs = json.loads(RESULTS.read_text("utf-8"))["runs"]
    panels = []
    for group, variants in runs.items():
        series = []
        for color, (name, seeds) in enumerate(variants.items()):
            steps = list(next(iter(seeds.values())))
            means = [statistics.mean(one[step] for one in seeds.values()) for step in steps]
            series.append(Series(x=[*map(int, steps)], y=means, name=name, color=color))
        panels.append(Panel(title=group, x="step", y="validation loss", series=series))
    PLOT.write_text(draw(panels, columns=2), "utf-8")
    for group, variants in runs.items():
        for name, seeds in variants.items():
            mean = statistics.mean(list(one.values())[-1] for one in seeds.values())
            print(f"| {group} | {name} | {mean:.2f} |")


if __name__ == "__main__":
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("text", type=Path, nargs="?")
    asked.add_argument("--plot", action="store_true")
    given = asked.parse_args()
    if given.text is not None:
        measure(given.text)
    if given.plot:
        plot()
