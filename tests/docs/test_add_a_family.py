"""docs/add-a-family.md in a copy of the package: its file is found, and equals the reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import ROOT, blocks_of

PAGE = ROOT / "docs" / "add-a-family.md"
RUN = """
import json, sys
from pathlib import Path
from blocks import run
print(json.dumps([block.printed for block in run(Path(sys.argv[1]).read_text("utf-8"), "page")]))
"""


def copy_of_the_package(folder: Path) -> None:
    """Links, but for the one folder that gets a new file."""
    families = folder / "glassformer" / "families"
    families.mkdir(parents=True)
    for path in (ROOT / "glassformer").iterdir():
        if path.name != "families":
            (folder / "glassformer" / path.name).symlink_to(path)
    for path in (ROOT / "glassformer" / "families").iterdir():
        (families / path.name).symlink_to(path)
    for name in ("tests", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)


@pytest.mark.slow
def test_the_page_runs_as_pasted(tmp_path):
    copy_of_the_package(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", RUN, str(PAGE)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'tools'}"},
    )
    assert ended.returncode == 0, ended.stderr
    file, known, made, checked, tested = json.loads(ended.stdout.splitlines()[-1])
    assert file == "" and "StarCoder2" in known and "3,030,371,328" in known  # parameters
    assert made == "Starcoder2ForCausalLM length\n" == blocks_of(PAGE.read_text("utf-8"))[2].shown
    assert "equal" in checked
    assert " passed" in tested
    assert not (ROOT / "glassformer" / "families" / "starcoder2.py").exists()


def test_a_family_takes_as_few_lines_as_the_page_says():
    (file,) = (block for block in blocks_of(PAGE.read_text("utf-8")) if block.title)
    assert len(file.code.splitlines()) <= 120
