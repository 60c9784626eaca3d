"""Positions and parameters as tensors, compared with what the model computes with them."""

from __future__ import annotations

import pytest
import small
import torch
from family_models import FAMILIES, case_of, look

import glassformer as gf
from glassformer.inside.weights.parameters import distribution_of, parameters
from glassformer.inside.weights.positions import positions
from glassformer.parameter_table import parts_of
from glassformer.weights.quantization import count_parameters


@pytest.mark.parametrize("name", FAMILIES, ids=str)
def test_every_family_has_pictures_of_what_it_has(name):
    case = case_of(name)
    found = positions(case.model, 24)
    kinds = {picture.kind for picture in found}
    for stack in (case.spec.encoder, case.spec.decoder):
        for block in () if stack is None else stack.attention_blocks:
            assert "mask" in kinds
            assert block.position is None or kinds & {"bias", "rotary", "distances"}
    for picture in found:
        for array in picture.arrays.values():
            assert len(array.axes) == array.array.ndim and not array.array.float().isnan().any()


def test_masks_are_what_patterns_leave_out():
    for name in FAMILIES:
        case = case_of(name)
        if not case.spec.last_stack.attention_blocks or case.both or case.spec.last_stack.memory:
            continue
        if any(
            b.attention.compression_factor or b.attention.separate_global_projections
            for b in case.spec.last_stack.blocks
        ):
            continue
        view = look(case)
        for picture in positions(case.model, len(view.tokens)):
            for layer in picture.layers if picture.kind == "mask" else ():
                seen = view.attention[layer].array.amax(0) > 0
                assert torch.equal(seen, picture.arrays["mask"].array), name


def test_a_bias_is_what_scores_differ_by():
    """T5's: scores without it are q k^T, since its scale is one."""
    case = case_of(next(n for n in FAMILIES if n.architecture == "T5ForConditionalGeneration"))
    view = look(case)
    bias = next(p for p in positions(case.model, side=view.encoder) if p.kind == "bias")
    plain = view.encoder.q[1].array @ view.encoder.k[1].array.transpose(-1, -2)
    want = view.encoder.scores[1].array - plain
    assert torch.allclose(bias.arrays["bias"].array, want, atol=1e-5)
    curve = bias.arrays["by_distance"]
    at = curve.labels["distance"].index("-3")
    assert float(curve.array[1, at]) == float(bias.arrays["bias"].array[1, 5, 2])


@pytest.mark.parametrize("architecture", ["DebertaForMaskedLM", "DebertaV2ForMaskedLM"])
def test_debertas_terms_add_up_to_its_scores(architecture):
    case = case_of(next(n for n in FAMILIES if n.architecture == architecture))
    view = look(case)
    terms = [p for p in positions(case.model, side=view) if p.kind == "terms"]
    assert [p.layers for p in terms] == [(layer,) for layer in range(len(view.attention))]
    for picture in terms:
        total = sum(array.array for array in picture.arrays.values())
        assert torch.allclose(total, view.scores[picture.layers[0]].array, atol=1e-5)


def test_the_table_adds_up_and_knows_what_is_tied():
    model = small.decoder()
    rows = parameters(model)
    assert [(r.name, r.count) for r in rows] == [(p.name, p.count) for p in parts_of(model)]
    total = sum(row.count for row in rows if row.shape is not None)
    assert total == count_parameters(model)
    assert sum(row.count for row in rows if row.depth == 0) == total
    tied = [row for row in rows if row.tied_to]
    assert [(row.name, row.tied_to) for row in tied] == [
        ("heads.lm.out.weight", "decoder.embed.token.weight")
    ]
    weight = model.decoder.blocks[0].ffn.up.weight
    found = distribution_of(model, "decoder.blocks.0.ffn.up.weight")
    assert found.mean == pytest.approx(float(weight.mean()), abs=1e-6)
    assert found.std == pytest.approx(float(weight.std(correction=0)), rel=1e-4)
    assert sum(found.histogram.counts) == weight.numel() and not found.sampled
    with pytest.raises(gf.GlassformerError, match="no tensor"):
        distribution_of(model, "decoder.nothing")
