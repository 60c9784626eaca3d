"""The package's front door: all names are there, and none costs time before it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import glassformer as gf


def test_every_name_is_found():
    for name in gf.__all__:
        assert getattr(gf, name).__name__.endswith(name), name
    assert {*gf.__all__} <= {*dir(gf)}
    with pytest.raises(AttributeError, match="'glassformer' has no attribute 'nobody'"):
        _ = gf.nobody


def test_torch_is_imported_when_something_needs_it():
    program = "import sys, glassformer; print('torch' in sys.modules); glassformer.load; "
    program += "print('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout.split() == ["False", "True"], ended.stderr
