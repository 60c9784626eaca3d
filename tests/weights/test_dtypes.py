"""The types in which numbers are stored: those that can be computed with, those that are cast when
it is asked for, and those that are refused."""

from __future__ import annotations

import pytest
import torch
import transformers
from safetensors import safe_open

import glassformer as gf
from glassformer.weights.dtypes import DTYPES

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
TOKENS = torch.arange(7)[None]


@pytest.fixture(params=["safetensors", "bin"])
def stored_as(request, folder):
    """Writes the matrices of the layers in another type, into either kind of file."""

    def write(dtype):
        tensors = {
            name: tensor.to(dtype) if tensor.ndim == 2 and ".h." in name else tensor
            for name, tensor in folder.tensors.items()
        }
        if request.param == "safetensors":
            folder.write(tensors)
        else:
            torch.save(tensors, folder.path / "pytorch_model.bin")
            folder.weights.unlink()
        return folder.path, tensors

    return write


@pytest.mark.parametrize("dtype", FLOAT8)
def test_float8_is_refused_unless_a_dtype_is_given(stored_as, folder, dtype):
    path, tensors = stored_as(dtype)
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(gf.GlassformerError, match=f"is stored as {name}.*dtype='bfloat16'"):
        gf.load(path)
    model = gf.load(path, dtype="float32")
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**folder.config)).eval()
    theirs.load_state_dict({key: t.float() for key, t in tensors.items()}, strict=False)
    theirs.tie_weights()
    with torch.no_grad():
        difference = model(TOKENS).logits - theirs(TOKENS).logits
    assert float(difference.abs().max()) <= 1e-5
    assert model.load_report.dtypes == ("float32",)
    assert gf.load(path, dtype="bfloat16")(TOKENS).logits.dtype == torch.bfloat16


def test_a_float8_copy_of_a_tied_tensor_is_compared(folder):
    wte = folder.tensors["transformer.wte.weight"].to(torch.float8_e5m2)
    folder.write({**folder.tensors, "transformer.wte.weight": wte, "lm_head.weight": wte.clone()})
    assert gf.load(folder.path, dtype="float32").load_report.tied


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool])
def test_whole_numbers_are_no_weights(stored_as, dtype):
    path, _ = stored_as(dtype)
    name = str(dtype).removeprefix("torch.")
    for asked in (None, "float32"):
        with pytest.raises(gf.GlassformerError, match=f"is stored as {name}, in codes of which"):
            gf.load(path, dtype=asked)


@pytest.mark.parametrize("dtype", [*DTYPES, *DTYPES.values()], ids=str)
def test_saved_in_another_type(folder, tmp_path, dtype):
    folder.model.save(tmp_path / "saved", dtype=dtype)
    wanted = DTYPES.get(dtype, dtype)
    with safe_open(tmp_path / "saved" / "model.safetensors", framework="pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {wanted}  # noqa: SIM118
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "saved", dtype="auto")
    assert theirs.dtype == wanted
    assert gf.load(tmp_path / "saved")(TOKENS).logits.dtype == wanted
    assert next(folder.model.parameters()).dtype == torch.float32


@pytest.mark.parametrize("dtype", ["float17", "int8", torch.int8, torch.float8_e4m3fn], ids=str)
def test_a_type_that_is_not_computed_with_is_named(folder, tmp_path, dtype):
    name = str(dtype).removeprefix("torch.")
    said = f"There is no dtype '{name}'; choose one of float32, float16, bfloat16, float64."
    for ask in (
        lambda: gf.load(folder.path, dtype=dtype),
        lambda: folder.model.save(tmp_path / "saved", dtype=dtype),
    ):
        with pytest.raises(gf.GlassformerError) as caught:
            ask()
        assert str(caught.value) == said
    assert not (tmp_path / "saved").exists()
