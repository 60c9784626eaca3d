"""Every block of every page runs as pasted, and prints what is shown beneath it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
from blocks import Wrong, blocks_of, commands_of, run, shell, understand, written
from own import own_files

PAGES = ["README.md", "README.zh.md", *sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]  # fmt: skip
NUMBER = re.compile(r"-?\d+(?:\.\d*)?")


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def agree(shown: str, printed: str) -> bool:
    """The same words, and numbers that differ by one in the last digit shown at most: machines
    round differently. Tensors are printed with as many spaces as their signs need."""
    if _words(shown) != _words(printed):
        return False
    return all(
        abs(float(one) - float(other)) < 1.5 * 10.0 ** -len(one.partition(".")[2])
        if "." in one
        else one == other
        for one, other in zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    )


def _words(text: str) -> list[str]:
    return [NUMBER.sub("#", line).replace(" ", "") for line in text.rstrip().splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_run_in_their_order_and_print_what_is_shown(page, tmp_path, monkeypatch):
    own_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    for block in run(text_of(page), page):
        if block.shown is not None:
            assert agree(block.shown, block.printed), f"{block.code}\nprints\n{block.printed}"


def test_what_is_not_run_says_why_and_is_little():
    left_out = [(page, block.reason) for page in PAGES for block in blocks_of(text_of(page))
                if block.reason]  # fmt: skip
    assert left_out == []
