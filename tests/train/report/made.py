"""Run folders with losses of a known law, as if they had been trained."""

from __future__ import annotations

import json
from pathlib import Path

from glassformer.train.recipe import read_recipe
from glassformer.train.trainer import with_objective_defaults


def make_run(
    folder: Path,
    body: int,
    tokens: int,
    loss: float | None,
    *,
    finished: bool = True,
    **train,
) -> Path:
    """Without a loss, one that was never evaluated."""
    folder.mkdir(parents=True)
    tables = {
        "model": {"preset": "gpt2"},
        "data": {"train": "train.txt", "validation": "valid.txt"},
        "train": {"max_steps": 100, **train},
        "run": {"out": str(folder)},
    }
    (folder / "recipe.toml").write_text(with_objective_defaults(read_recipe(tables)).text())
    about = {"architecture": "GPT2LMHeadModel", "parameters": body + 1000, "trained": body + 1000}
    about |= {"body": body, "tokens_epoch": 10, "flops_token": 1.0, "device": "cpu"}
    about |= {"versions": {}, "data": {}}
    (folder / "about.json").write_text(json.dumps(about))
    entries = []
    for step in (1, 50, 100):
        read = tokens * step // 100
        entry = {"step": step, "loss": 9.0 - step / 100, "parts": {}, "tokens": read}
        entries.append({**entry, "learning_rate": 0.1, "gradient": 1.0})
        entries[-1]["speed"] = {"time": 1.0, "tokens_per_second": 1000.0, "utilization": 0.5}
        if loss is not None and step > 1:
            entries.append({"step": step, "valid": {"loss": loss + (100 - step)}})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(e) + "\n" for e in entries))
    if finished:
        how = {"step": 100, "tokens": tokens, "best": loss, "best_step": 100, "stopped": False}
        (folder / "finished.json").write_text(json.dumps(how))
    return folder
