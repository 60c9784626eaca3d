"""Loading GPT-2 small from safetensors beside transformers, each load followed by one look at every
weight (so that a mapped file is really read), and what `import glassformer` adds to `import torch`:

    python bench/load.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

import torch
import transformers
from timing import compared, in_turn, write

import glassformer as gf

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def touched(model: torch.nn.Module) -> None:
    """Reads a number from every page of every weight, in the order of memory."""
    for parameter in model.parameters():
        weight = parameter.detach()
        flat = (weight if weight.is_contiguous() else weight.t()).view(-1)
        flat[:: 4096 // weight.element_size()].sum()


def import_seconds(what: str) -> float:
    """Best of seven fresh processes."""
    script = f"import time; t = time.perf_counter(); import {what}; print(time.perf_counter() - t)"
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
        for _ in range(7)
    ]
    return min(float(run.stdout) for run in runs)


def main(rounds: int = 15) -> None:
    torch.set_num_threads(2)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(folder)

        def theirs() -> torch.nn.Module:
            return transformers.GPT2LMHeadModel.from_pretrained(folder)

        def ours() -> torch.nn.Module:
            return gf.load(folder)

        times = in_turn({"transformers": theirs, "glassformer": ours}, rounds)
        rows.append(compared("load GPT-2 small", times, "transformers"))
        times = in_turn(
            {"transformers": lambda: touched(theirs()), "glassformer": lambda: touched(ours())},
            rounds,
        )
        rows.append(compared("load GPT-2 small and touch every page", times, "transformers"))
    begin = time.perf_counter()
    alone, with_us = import_seconds("torch"), import_seconds("torch, glassformer")
    print(f"\nimport torch {alone:.2f} s; glassformer adds {with_us - alone:.2f} s")
    rows.append(
        {
            "what": "import",
            "torch s": round(alone, 3),
            "added s": round(with_us - alone, 3),
            "measured in s": round(time.perf_counter() - begin, 1),
        }
    )
    write(__file__, rows)


if __name__ == "__main__":
    main()
