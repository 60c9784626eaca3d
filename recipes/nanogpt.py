"""nanoGPT's side of recipes/compare.py: its own train.py with its own settings for Shakespeare, and
the loss of the checkpoint that it keeps."""

from __future__ import annotations

import itertools
import os
import pickle
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

NANOGPT = Path(__file__).parent.parent / "peers" / "nanogpt"
TINY = {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 32, "batch_size": 4}
SHORT = {"max_iters": 60, "lr_decay_iters": 60, "eval_interval": 30, "eval_iters": 2}
PLAIN = {"device": "cpu", "compile": False, "dtype": "float32"}
TRIAL = [f"--{name}={value}" for name, value in (TINY | SHORT | PLAIN).items()]


def train_nanogpt(text: str, edge: int, folder: Path, trial: bool) -> dict[str, Any]:
    """Letters up to `edge` are learned; they are numbered as its own prepare.py does it."""
    if not (NANOGPT / "train.py").is_file():
        sys.exit(f"nanoGPT is not in {NANOGPT}; see docs/recipes.md")
    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted(set(text))
    numbers = {letter: number for number, letter in enumerate(letters)}
    ids = np.array([numbers[letter] for letter in text], dtype=np.uint16)
    ids[:edge].tofile(folder / "train.bin")
    ids[edge:].tofile(folder / "val.bin")
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": len(letters)}))
    command = [sys.executable, "-u", "train.py", "config/train_shakespeare_char.py"]
    command += [f"--dataset={folder.resolve()}", f"--out_dir={folder.resolve()}"]
    begun = time.perf_counter()
    lines: list[tuple[float, str]] = []
    with subprocess.Popen(
        [*command, *(TRIAL if trial else ())],
        cwd=NANOGPT,
        env={**os.environ, **cold(folder)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append((time.perf_counter(), line))
    seconds = time.perf_counter() - begun
    if process.returncode:
        sys.exit(f"nanoGPT ended with {process.returncode}")
    times = []  # of a step, from lines that are some steps and no evaluation apart
    for (before, one), (after, other) in itertools.pairwise(lines):
        first, second = (re.match(r"iter (\d+):", line) for line in (one, other))
        if first and second:
            times.append((after - before) / (int(second[1]) - int(first[1])))
    estimates = [float(x) for _, line in lines for x in re.findall(r"val loss ([\d.]+)", line)]
    return {
        "seconds": seconds,
        "ms a step": 1e3 * statistics.median(times),
        "its own estimate": min(estimates),
        **checkpoint_loss(folder / "ckpt.pt", ids[edge:].astype(np.int64)),
    }


def cold(folder: Path) -> dict[str, str]:
    """With these nothing that was compiled before is found again: both sides begin from scratch."""
    fresh = folder / f"compiled-{time.time_ns()}"
    return {"TORCHINDUCTOR_CACHE_DIR": str(fresh), "TRITON_CACHE_DIR": str(fresh / "triton")}


def checkpoint_loss(path: Path, ids: Any) -> dict[str, Any]:
    """Over the whole text in windows, as the recipe's own evaluation has it."""
    import torch

    sys.path.insert(0, str(NANOGPT))
    from model import GPT, GPTConfig

    device = "cuda" if torch.cuda.is_available() else "cpu"
    saved = torch.load(path, map_location=device, weights_only=True)
    model = GPT(GPTConfig(**saved["model_args"])).to(device).eval()
    model.load_state_dict({k.removeprefix("_orig_mod."): v for k, v in saved["model"].items()})
    length, text, total = model.config.block_size, torch.tensor(ids, device=device), 0.0
    for start in range(0, len(text) - 1, length):
        window = text[start : start + length + 1][None]
        with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            _, loss = model(window[:, :-1], window[:, 1:])
        total += loss.item() * (window.shape[1] - 1)
    return {"valid": total / (len(text) - 1), "at step": saved["iter_num"]}
