"""The chunked cross-entropy beside the plain one, which holds all logits: time and memory of a
forward and backward pass over GPT-2's vocabulary, by the bytes of logits that are held at a time.

python bench/entropy.py [rows] [width] [words]; on a GPU in bfloat16, as in training."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.train import fused_cross_entropy


def timed(run: Callable[[], Tensor], leaves: list[Tensor], times: int = 10) -> tuple[float, float]:
    """Milliseconds of the best of some passes, and the peak of memory in MiB beyond the inputs."""
    best, before = float("inf"), torch.cuda.memory_allocated()
    for number in range(times + 3):
        if number == 3:
            torch.cuda.reset_peak_memory_stats()
        for leaf in leaves:
            leaf.grad = None
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = run()
        (loss / len(leaves[0])).backward()
        torch.cuda.synchronize()
        if number >= 3:
            best = min(best, time.perf_counter() - start)
    return best * 1e3, (torch.cuda.max_memory_allocated() - before) / 2**20


def main(rows: int = 32 * 1024, width: int = 768, words: int = 50257) -> None:
    x = torch.randn(rows, width, device="cuda", requires_grad=True)
    weight = torch.randn(words, width, device="cuda").mul_(0.02).requires_grad_()
    targets = torch.randint(words, (rows,), device="cuda")

    def plain() -> Tensor:
        return F.cross_entropy(F.linear(x, weight).float(), targets, reduction="sum")

    def ours() -> Tensor:
        return fused_cross_entropy.cross_entropy(x, weight, None, targets)

    runs: list[tuple[str, Callable[[], Tensor], int]] = [
        ("plain", plain, 0),
        ("plain, compiled", torch.compile(plain), 0),
        *((f"ours, {2**power / 2**20:.0f} MiB", ours, 2**power) for power in range(27, 33)),
    ]
    products = 6 * rows * width * words
    print(f"{rows} rows, width {width}, {words} words, {torch.cuda.get_device_name()}")
    for name, run, budget in runs:
        if budget:
            fused_cross_entropy.BYTES["gpu"] = budget
        took, peak = timed(run, [x, weight])
        print(f"{name:18} {took:8.2f} ms {products / took / 1e9:6.0f} TFLOP/s {peak:9.0f} MiB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
