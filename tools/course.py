"""Runs the course's chapters and writes what each block prints beneath it.

    python tools/course.py docs/course/*.md

For when a built-in model was trained anew: read the prose again, too. `tests/test_course.py` runs
the same blocks and compares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import torch

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)


@dataclass(frozen=True)
class Run:
    """A block of Python with what the chapter says that it prints, and what it does print."""

    code: str
    shown: str
    printed: str


@contextmanager
def settings_kept() -> Iterator[None]:
    """Chapters turn gradients off and say how tensors are printed, as a reader would."""
    learns = torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_grad_enabled(learns)
        torch.set_printoptions(profile="default")


def run(text: str, name: str) -> list[Run]:
    """All blocks of a chapter in their order, as pasted one after the other into one session."""
    place: dict[str, object] = {"__name__": "__main__"}
    done = []
    with settings_kept():
        for block in BLOCK.finditer(text):
            code, shown = block.groups(default="")
            line = text[: block.start()].count("\n") + 1
            with redirect_stdout(StringIO()) as printed:
                exec(compile("\n" * line + code, name, "exec"), place)
            done.append(Run(code, shown, printed.getvalue()))
    return done


def written(text: str, name: str) -> str:
    """The chapter with what its blocks print now."""
    runs = iter(run(text, name))

    def block(_: re.Match[str]) -> str:
        ran = next(runs)
        printed = "\n".join(line.rstrip() for line in ran.printed.splitlines())
        beneath = f"\n```text\n{printed}\n```\n" if printed else ""
        return f"```python\n{ran.code}```\n{beneath}"

    return BLOCK.sub(block, text)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(written(path.read_text("utf-8"), str(path)), "utf-8")
        print(path)
