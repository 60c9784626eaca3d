"""Training a small decoder on characters on two CPU cores, at nanoGPT's shapes for Shakespeare,
beside nanoGPT: eager beside eager and compiled beside compiled. Each side runs whole training
steps, including its data loading.

nanoGPT's model.py (github:karpathy/nanoGPT) is looked for in peers/nanogpt/.

    python bench/train.py [ROUNDS]
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import compared, in_turn, write

from glassformer.train.distributed import find_worker
from glassformer.train.recipe import read_recipe
from glassformer.train.trainer import Trainer, with_objective_defaults

ROOT = Path(__file__).parent.parent
LETTERS = "".join(map(chr, range(33, 98)))  # as many as Shakespeare's
SHAPES = {  # layers, heads, width, batch, length, steps of a round
    "4 layers of 128, 12 x 64 characters": (4, 4, 128, 12, 64, 40),
    "6 layers of 384, 16 x 256 characters": (6, 6, 384, 16, 256, 2),
}
SHAPE = {"bias": False, "activation_function": "gelu"}  # nanoGPT's
Side = Callable[[], Any]


def ours(folder: Path, shape: tuple[int, ...], compile: bool) -> Side:
    layers, heads, width, batch, length, steps = shape
    recipe = {
        "model": {"preset": "gpt2", "num_layers": layers, "num_heads": heads, "hidden_size": width,
                  "context_length": length, "dropout": 0.0, "config": SHAPE},
        "tokenizer": {"type": "char"},
        "data": {"format": "text", "train": str(folder / "train.txt")},
        "objective": {"name": "causal-lm"},
        "train": {"max_steps": 10_000, "batch_size": batch, "learning_rate": 1e-3,
                  "compile": compile},
        "run": {"out": str(folder / "run")},
    }  # fmt: skip
    complete = with_objective_defaults(read_recipe(recipe))
    loop = Trainer.from_recipe(complete, find_worker("cpu"), folder / "run").loop

    def go() -> None:
        for _ in range(steps):
            taken = loop.train_step()
        float(taken.grad_norm)

    return go


def theirs(folder: Path, shape: tuple[int, ...], compile: bool) -> Side:
    from model import GPT, GPTConfig

    layers, heads, width, batch, length, steps = shape
    sizes = {"n_layer": layers, "n_head": heads, "n_embd": width, "block_size": length}
    model = GPT(GPTConfig(vocab_size=65, dropout=0.0, bias=False, **sizes))
    optimizer = model.configure_optimizers(0.1, 1e-3, (0.9, 0.99), "cpu")
    forward = torch.compile(model) if compile else model
    text = torch.tensor([ord(c) - 33 for c in (folder / "train.txt").read_text("utf-8")])

    def go() -> None:
        for _ in range(steps):
            starts = torch.randint(len(text) - length, (batch,)).tolist()
            x = torch.stack([text[i : i + length] for i in starts])
            y = torch.stack([text[i + 1 : i + 1 + length] for i in starts])
            _, loss = forward(x, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return go


def main() -> None:
    torch.set_num_threads(2)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    sys.path.insert(0, str(ROOT / "peers" / "nanogpt"))
    if not (ROOT / "peers" / "nanogpt" / "model.py").is_file():
        sys.exit("nanoGPT's model.py is not in peers/nanogpt/")
    rows = []
    for what, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            chosen = random.Random(1).choices(LETTERS, k=1_000_000)
            (folder / "train.txt").write_text("".join(chosen), "utf-8")
            sides = {
                "nanoGPT": theirs(folder, shape, compile=False),
                "nanoGPT, compiled": theirs(folder, shape, compile=True),
                "glassformer": ours(folder, shape, compile=False),
                "glassformer, compiled": ours(folder, shape, compile=True),
            }
            row = compared(what, in_turn(sides, rounds), "nanoGPT")
        tokens = shape[3] * shape[4] * shape[5]
        for side in sides:
            row[side]["tokens_per_second"] = round(tokens / row[side]["ms"] * 1e3)
            print(f"  {side:28} {row[side]['tokens_per_second']:10,} tokens/s")
        rows.append(row)
    write(__file__, rows)


if __name__ == "__main__":
    main()
