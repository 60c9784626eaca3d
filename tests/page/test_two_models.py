"""Comparison of two models, whose differences the test has made itself."""

from __future__ import annotations

import numpy as np
import page_models
import pytest
import torch
from serving import serve

import glassformer as gf

TEXT = "time flies like an arrow"


def test_two_models_side_by_side(folders, tmp_path):
    other = page_models.decoder(resid_pdrop=0.0)
    with torch.no_grad():
        other.decoder.blocks[1].attention.qkv.weight.mul_(1.5)
    other.save(tmp_path / "other")
    for served in serve(folders["decoder"], tmp_path / "other"):
        metadata, arrays = served.ask("compare", a="decoder", b="other", text=TEXT)
        assert arrays["heads.decoder"].shape == (3, 4)
        assert (arrays["heads.decoder"][0] == 0).all() and (arrays["heads.decoder"][1] > 0).all()
        assert arrays["residual.decoder"][0] == 0 < arrays["residual.decoder"][2]
        changed = {one["name"]: one["change"] for one in metadata["weights"]}
        assert changed["decoder.blocks.1.attention.qkv.weight"] == pytest.approx(0.5, abs=1e-4)
        assert metadata["a"]["candidates"] != metadata["b"]["candidates"]
        assert "are the same" in served.refused("compare", a="other", b="other", text="a")[1]


def test_an_adapter_beside_its_model(folders, tmp_path):
    """An adapter's folder is a model that knows its base."""
    model = gf.load(folders["decoder"])
    model.adapters.add(gf.adapters.LoRA(rank=2))
    with torch.no_grad():
        for tensor in model.parameters():
            if tensor.requires_grad:
                tensor += 0.2
    model.adapters.save(tmp_path / "tuned")
    for served in serve(folders["decoder"], tmp_path / "tuned"):
        metadata, arrays = served.ask("compare", a="decoder", b="tuned", text=TEXT)
        want = gf.compare(model, model, TEXT)
        moved = want.sides["decoder"].pattern.numpy()
        np.testing.assert_allclose(arrays["heads.decoder"], moved, atol=1e-5)
        assert moved.max() > 1e-3
        assert metadata["b"]["candidates"][0]["token"] == want.after.predictions(top=1)[0].id
