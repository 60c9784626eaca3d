"""Sides that are a process each: idle threads of one would disturb another. They take turns."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def serve(
    make: Callable[[str, str], tuple[Callable[[Any], Any], int]], name: str, folder: str
) -> None:
    """Says a side's size (what a step reads, in bytes); then for each line of what it is given, how
    many seconds it takes."""
    run, size = make(name, folder)
    print("ready", size, flush=True)
    for line in sys.stdin:
        given = json.loads(line)
        begin = time.perf_counter()
        run(given)
        print("took", time.perf_counter() - begin, flush=True)


class Side:
    """`script --serve name folder` must call `serve`."""

    def __init__(self, script: str, name: str, folder: str, python: str = sys.executable) -> None:
        command = [python, script, "--serve", name, folder]
        pipe = subprocess.PIPE
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self.size = int(self.said("ready"))

    def said(self, word: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                return line.split()[1]
        raise RuntimeError(f"{self.name} has failed; run it by itself with --serve.")

    def time(self, given: Any) -> float:
        assert self.process.stdin is not None
        print(json.dumps(given), file=self.process.stdin, flush=True)
        return float(self.said("took"))
