"""`glassformer check` on every class."""

from __future__ import annotations

import pytest
from cases import in_transformers
from safetensors.torch import load_file, save_file

from glassformer.check import check

pytestmark = pytest.mark.over(which=in_transformers, once_per="type")


def test_check_finds_every_class_equal(case):
    result = check(case.folder)
    assert result.equal
    assert result.logits is not None or result.hidden is not None
    assert result.same_tokens is None  # these folders have no tokenizer


def test_check_sees_a_difference(case, tmp_path, monkeypatch):
    """The reference's weights are others: the same folder no longer gives the same."""
    import shutil

    import glassformer.check as checking

    folder = tmp_path / "other"
    shutil.copytree(case.folder, folder)
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: t + 0.1 if t.ndim == 2 else t for name, t in tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    original = checking.load_reference
    monkeypatch.setattr(
        checking, "load_reference", lambda lib, _, name: original(lib, folder, name)
    )
    assert not check(case.folder).equal
