"""The wheel contains all of the package, nothing else, and works without the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST = 80 * 10**6  # bytes


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The wheel's files, in a folder to import from."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(folder), str(wheel)], check=True, capture_output=True)
    return folder


@pytest.fixture
def run(installed, tmp_path):
    """Runs a command of the installed package in an empty folder, with an empty cache."""

    def call(*words: str) -> str:
        env = {
            **os.environ,
            "PYTHONPATH": str(installed),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }
        command = [sys.executable, *words]
        (tmp_path / "here").mkdir(exist_ok=True)
        ended = subprocess.run(
            command, cwd=tmp_path / "here", env=env, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
        return ended.stdout

    return call


def test_all_of_the_package_is_in_it_and_nothing_else(wheel):
    package = ROOT / "glassformer"
    files = {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == files
    kinds = {Path(name).suffix for name in held}
    assert {".cpp", ".h", ".js", ".css", ".html", ".safetensors", ".typed"} <= kinds
    assert wheel.stat().st_size <= MOST


def test_it_works_elsewhere(run, installed, tmp_path):
    program = "import glassformer; print(glassformer.__file__)"
    assert Path(run("-c", program).strip()).is_relative_to(installed)
    verb = ("-m", "glassformer")
    assert run(*verb, "--version").startswith("glassformer ")
    assert "stories" in run(*verb, "zoo")
    words = ("generate", "letters", "ROMEO:", "--max-new-tokens", "8")
    written = run(*verb, *words)
    assert len(written.strip()) > 4
    if shutil.which("c++") or shutil.which("g++"):
        assert list((tmp_path / "cache/glassformer").glob("step-*.so"))
    opened = run(*verb, "open", "--check", "--port", "0")
    assert "http://127.0.0.1:" in opened and "It answers: " in opened


def test_the_script_is_named(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "glassformer = glassformer.__main__:main" in archive.read(points).decode()
