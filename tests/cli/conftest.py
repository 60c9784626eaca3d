from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "train/report"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tasks"))


@pytest.fixture
def terminal(monkeypatch, capsys):
    """Standard output is a terminal, as wide as COLUMNS says; rich writes no escape codes to it."""
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
