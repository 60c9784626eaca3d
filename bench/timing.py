"""Both sides in one process, in turn, so that a noisy machine is noisy for both."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
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


def memory_rate(size: int = 1 << 30) -> float:
    """The bytes a second that torch's threads read from memory: the best of several sums."""
    numbers = torch.ones(size // 4)
    times = in_turn({"sum": numbers.sum}, rounds=10)["sum"]
    return size / min(times)


def cpu_name() -> str:
    """The name of this machine's CPU."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write(script: str, rows: list[dict[str, Any]], *keys: str) -> None:
    """The last result, committed beside the script; with `keys`, of what was not measured now the
    last one stays."""
    import transformers

    machine = {
        "cores": torch.get_num_threads(),
        "cpu": cpu_name(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    _put(script, {"machine": machine}, rows, keys, indent=2)


def write_gpu(script: str, rows: list[dict[str, Any]], *keys: str) -> None:
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    today = date.today().isoformat()
    _put(script, about, [row | {"day": today} for row in rows], keys, indent=1)


def _put(
    script: str, about: dict[str, Any], rows: list[dict[str, Any]], keys: Sequence[str], indent: int
) -> None:
    path = Path(script).with_suffix(".json")
    known = json.loads(path.read_text())["results"] if keys and path.exists() else []

    def name(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[key] for key in keys)

    now = {name(row) for row in rows}
    results = [row for row in known if name(row) not in now] + rows
    path.write_text(json.dumps(about | {"results": results}, indent=indent) + "\n")
