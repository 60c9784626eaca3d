"""The names of the package are found, and are imported on first use."""

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


def test_a_subpackage_needs_no_import_of_its_own():
    for name in gf.SUBPACKAGES:
        assert gf.__getattr__(name).__name__ == f"glassformer.{name}"
    program = "import glassformer as gf; print(gf.adapters.LoRA is gf.LoRA, gf.errors.LoadError)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout.startswith("True"), ended.stderr
