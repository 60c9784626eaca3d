"""CTranslate2's folder of a Whisper model is read as the folder that it was converted from."""

from __future__ import annotations

import pytest
import torch
from ctranslate2_files import model, variables, write
from safetensors.torch import load_file

import glassformer as gf


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    model().save(folder)
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("quantize", [False, True])
@torch.no_grad()
def test_equals_the_folder_it_was_made_from(saved, tmp_path, quantize):
    wanted = model()
    found = gf.load(write(tmp_path / "ct2", variables(saved, quantize)))
    assert not found.load_report.made and found.architecture == wanted.architecture
    sound = torch.randn(1, 6, 22, generator=torch.Generator().manual_seed(1))
    inputs = {"input_features": sound, "decoder_input_ids": torch.arange(7)[None]}
    difference = (found(**inputs).logits - wanted(**inputs).logits).abs().max()
    assert float(difference) <= (0.02 if quantize else 1e-6)
    generation = found.generation_config
    assert generation["no_timestamps_token_id"] == 50362
    assert generation["alignment_heads"] == [[1, 0]] and "lang_to_id" not in generation


def test_half_precision_is_float32_on_a_cpu(saved, tmp_path):
    half = {n: t.half() if t.is_floating_point() else t for n, t in variables(saved, False).items()}
    found = gf.load(write(tmp_path / "ct2", half))
    assert found.load_report.dtypes == ("float32",)


def test_other_and_damaged_files_are_named(saved, tmp_path):
    folder = write(tmp_path / "ct2", variables(saved, False), "TransformerSpec")
    with pytest.raises(gf.GlassformerError, match="CTranslate2 model of TransformerSpec"):
        gf.load(folder)
    folder = write(tmp_path / "ct2", variables(saved, False))
    content = (folder / "model.bin").read_bytes()
    for size in (20, 200, len(content) - 8):
        (folder / "model.bin").write_bytes(content[:size])
        with pytest.raises(gf.GlassformerError, match="damaged CTranslate2 file"):
            gf.load(folder)
    lacking = {n: t for n, t in variables(saved, False).items() if "conv2" not in n}
    with pytest.raises(gf.GlassformerError, match=r"damaged CTranslate2 file \('encoder/conv2"):
        gf.load(write(folder, lacking))
