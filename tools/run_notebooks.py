"""Runs the notebooks and keeps what they show.

    python tools/run_notebooks.py                         # all of notebooks/
    python tools/run_notebooks.py notebooks/generate.ipynb

`tests/docs/test_notebooks.py` runs them the same way and compares.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def executed(notebook: Any) -> Any:
    """A copy with the outputs of now, run from top to bottom in an empty folder."""
    notebook = nbformat.from_dict(notebook)
    with tempfile.TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()
    return kept(notebook)


def kept(notebook: Any) -> Any:
    """Without what differs from run to run and says nothing: marks, warnings, and where a stream
    was cut into pieces."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
        if cell.cell_type == "code":
            streams = [one for one in cell.outputs if one.output_type == "stream"]
            others = [one for one in cell.outputs if one.output_type != "stream"]
            said = "".join(one.text for one in streams if one.name == "stdout")
            cell.outputs = [nbformat.v4.new_output("stream", text=said)] * bool(said) + others
    return notebook


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:] or sorted(FOLDER.glob("*.ipynb"))):
        nbformat.write(executed(read(path)), path)
        print(path, f"{path.stat().st_size / 1000:.0f} kB")
