"""The text of `letters`: tiny Shakespeare. The first nine tenths are learned, as in nanoGPT."""

from __future__ import annotations

from pathlib import Path

from sources import SourceFiles
from splits import write

SHARE = 0.9


def make(sources: SourceFiles, target: Path) -> None:
    text = sources.text("tinyshakespeare/input.txt")
    middle = int(SHARE * len(text))
    write(target / "train.txt", text[:middle])
    write(target / "eval" / "valid.txt", text[middle:])
