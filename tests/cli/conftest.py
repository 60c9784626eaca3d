from __future__ import annotations

import sys
from pathlib import Path

import pytest

from glassformer.cli import main

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "train/report"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tasks"))


@pytest.fixture
def glassformer(monkeypatch, capsys):
    """The command line in this process: words come in; the exit code and both outputs go out."""

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["glassformer", *words])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call
