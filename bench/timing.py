"""Both sides in one process, in turn, so that a noisy machine is noisy for both."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch


def in_turn(
    sides: dict[str, Callable[[], Any]], rounds: int, warm: int = 2
) -> dict[str, list[float]]:
    """Seconds of every call, the sides taking turns."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides.items())
    for turn in range(warm + rounds):
        order = order[1:] + order[:1]  # nobody always comes after the same neighbour
        for name, call in order:
            begin = time.perf_counter()
            call()
            if turn >= warm:
                times[name].append(time.perf_counter() - begin)
    return times


def compared(title: str, times: dict[str, list[float]], peer: str) -> dict[str, Any]:
    """Prints and returns medians and ratios; above 1 we are faster than the peer."""
    medians = {name: statistics.median(values) for name, values in times.items()}
    row = {"what": title, "rounds": len(times[peer])}
    print(f"\n{title}")
    for name, median in medians.items():
        ratio = medians[peer] / median
        print(f"  {name:28} {median * 1e3:10.1f} ms   {ratio:5.2f}x")
        row[name] = {"ms": round(median * 1e3, 2), "ratio": round(ratio, 3)}
    return row


def write(script: str, rows: list[dict[str, Any]]) -> None:
    """The last result, committed beside the script."""
    import transformers

    machine = {
        "cores": torch.get_num_threads(),
        "cpu": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    path = Path(script).with_suffix(".json")
    path.write_text(json.dumps({"machine": machine, "results": rows}, indent=2) + "\n")


def write_gpu(script: str, rows: list[dict[str, Any]], *keys: str) -> None:
    """What was measured now; of what was not, by `keys`, the last result stays."""
    path = Path(script).with_suffix(".json")
    known = json.loads(path.read_text())["results"] if path.exists() else []
    now = {tuple(row[key] for key in keys) for row in rows}
    results = [row for row in known if tuple(row[key] for key in keys) not in now]
    results += [row | {"day": date.today().isoformat()} for row in rows]
    content = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "results": results}
    path.write_text(json.dumps(content, indent=1) + "\n")
