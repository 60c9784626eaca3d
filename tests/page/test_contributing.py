"""The panel of CONTRIBUTING.md works: its handler and test, and its types in the front end."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from glassformer.page.handlers import ROUTES

ROOT = Path(__file__).parent.parent.parent
CHECKER = ROOT / "page/node_modules/.bin/svelte-check"


@pytest.fixture
def files() -> dict[str, str]:
    """The four files of the example by their paths."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("### A page panel: 4 files\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\d\. `(\S+?)`.*?^```\w+\n(.*?)^```", section, re.M | re.S)
    assert len(found) == 4
    return dict(found)


@pytest.fixture
def handler(files, tmp_path, monkeypatch):
    """The module of the handler, imported; its route is removed at the end."""
    name, source = next((name, text) for name, text in files.items() if "handlers/" in name)
    path = tmp_path / Path(name).name
    path.write_text(source, "utf-8")
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    spec = util.spec_from_file_location(f"glassformer.page.handlers.{path.stem}", path)
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del ROUTES[path.stem]


def test_the_example_answers_and_passes_its_own_test(handler, files, decoder):
    assert "norms" in ROUTES
    scope: dict = {}
    exec(next(text for name, text in files.items() if name.startswith("tests/")), scope)
    scope["test_norms_are_those_of_the_residual_stream"](decoder)


@pytest.mark.skipif(not CHECKER.exists(), reason="the front end's tools are not installed")
def test_the_front_end_of_the_example_has_no_type_errors(handler, files, tmp_path):
    page = tmp_path / "page"
    shutil.copytree(ROOT / "page", page, ignore=shutil.ignore_patterns("node_modules"))
    os.symlink(ROOT / "page/node_modules", page / "node_modules")
    for name, text in files.items():
        if name.startswith("page/"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, "utf-8")
    protocol = runpy.run_path(str(ROOT / "tools/protocol.py"))["protocol"]()
    assert "norms: { request: NormsRequest; response: NormsResponse };" in protocol
    (page / "src/protocol.generated.ts").write_text(protocol, "utf-8")
    check = [str(CHECKER), "--tsconfig", "./tsconfig.json", "--fail-on-warnings"]
    done = subprocess.run(check, cwd=page, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
