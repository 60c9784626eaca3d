"""The worked examples of CONTRIBUTING.md: added to a copy of the package, used and counted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
BLOCK = re.compile(r'^```(\w+)(?: title="(.+?)")?\n(.*?)^```$\n?', re.M | re.S)
SECTION = re.compile(r"^### An? (.+?): (\d) files?$\n(.*?)(?=^##)", re.M | re.S)
COUNTS = {"family": 1, "objective": 1, "optimizer": 1, "metric": 2, "verb": 2}
EXAMPLES = {
    name: (int(count), said) for name, count, said in SECTION.findall(TEXT) if name in COUNTS
}
RUN = """
import json, sys
from pathlib import Path
from blocks import run
blocks = run(Path(sys.argv[1]).read_text("utf-8"), "CONTRIBUTING.md")
print(json.dumps([(block.code, block.shown, block.printed) for block in blocks]))
"""


def copy_of_the_package(folder: Path) -> Path:
    """The Python files are copied, because examples change some; links lead to the rest."""
    package = folder / "glassformer"
    package.mkdir()
    for path in (ROOT / "glassformer").iterdir():
        if path.name in {"families", "train", "metrics", "evaluate", "tasks", "cli"}:
            shutil.copytree(path, package / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (package / path.name).symlink_to(path)
    return package


def patched(source: str, diff: str) -> str:
    """Each part of a diff, between lines of @@, applied to the only place where it fits."""
    for part in diff.split("@@\n"):
        lines = part.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        assert source.count(old) == 1, f"does not fit:\n{part}"
        source = source.replace(old, new)
    return source


@pytest.fixture(scope="module")
def used(tmp_path_factory) -> tuple[dict[str, list[str]], list[list[str]]]:
    """The files of each example, and what each block without a title has printed."""
    folder = tmp_path_factory.mktemp("contributing")
    copy_of_the_package(folder)
    files: dict[str, list[str]] = {}
    for name, (_, said) in EXAMPLES.items():
        files[name] = [title for _, title, _ in BLOCK.findall(said) if title]
        for kind, title, code in BLOCK.findall(said):
            if title:
                path = folder / title
                assert path.exists() == (kind == "diff"), title
                path.write_text(patched(path.read_text("utf-8"), code) if kind == "diff" else code)
    page = folder / "page.md"
    titled = re.compile(r"^```\w+ title=.*?^```$\n?", re.M | re.S)
    page.write_text("".join(titled.sub("", said) for _, said in EXAMPLES.values()), "utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", RUN, str(page)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'tools'}"},
    )
    assert ended.returncode == 0, ended.stderr
    return files, json.loads(ended.stdout.splitlines()[-1])


def test_every_example_works_as_it_says(used):
    _, blocks = used
    assert len(blocks) >= len(COUNTS)
    for code, shown, printed in blocks:
        assert shown is None or printed == shown, code
    (checked,) = (printed for code, _, printed in blocks if "check seed-oss" in code)
    assert "equal" in checked


@pytest.mark.parametrize("name", COUNTS)
def test_an_example_touches_as_many_files_as_it_says(used, name):
    files, _ = used
    assert len(files[name]) == EXAMPLES[name][0] == COUNTS[name]


def test_the_examples_follow_the_rules_of_the_code(tmp_path):
    for _, said in EXAMPLES.values():
        for kind, title, code in BLOCK.findall(said):
            if kind == "python" and title:
                path = tmp_path / title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(code)
    settings = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    command = [sys.executable, "-m", "ruff"]
    for words in (["check", *settings], ["format", "--check", *settings]):
        ended = subprocess.run(
            [*command, *words, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout
