"""The notebooks run from top to bottom and reproduce their saved output."""

from __future__ import annotations

import re
from typing import Any

import pytest
import run_notebooks as notebooks
from agreement import agree

PATHS = sorted(notebooks.FOLDER.glob("*.ipynb"))
PICTURES = {"text/html", "image/svg+xml"}


def outputs(notebook: Any) -> list[tuple[str, list[Any]]]:
    return [(cell.source, cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]


def kinds(output: Any) -> set[str]:
    return set(output.data) if "data" in output else {output.output_type}


def text_of(output: Any) -> str:
    """What it says; of a picture nothing, whose text only stands for it."""
    if "data" not in output:
        return str(output.text)
    return "" if PICTURES & set(output.data) else str(output.data["text/plain"])


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_it_shows_what_it_has_kept(path):
    kept = notebooks.read(path)
    for (source, before), (_, now) in zip(
        outputs(kept), outputs(notebooks.executed(kept)), strict=True
    ):
        assert list(map(kinds, before)) == list(map(kinds, now)), source
        for one, other in zip(before, now, strict=True):
            assert agree(text_of(one), text_of(other)), f"{source}\nsays\n{text_of(other)}"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_it_is_small_and_has_pictures(path):
    kept = notebooks.read(path)
    assert path.stat().st_size < 300_000
    assert kept == notebooks.kept(notebooks.read(path))
    said = "".join(cell.source for cell in kept.cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\((.*?)\)", said)
    assert links and all((path.parent / link).is_file() for link in links)
    found = [output for _, cell in outputs(kept) for output in cell]
    assert any(PICTURES & kinds(output) for output in found)
    assert all(output.output_type != "error" for output in found)


def test_the_page_of_notebooks_names_them_all():
    page = (notebooks.FOLDER.parent / "docs" / "notebooks.md").read_text("utf-8")
    assert [path.name for path in PATHS if f"notebooks/{path.name}" not in page] == []
    assert len(PATHS) == page.count("| `notebooks/")
