"""Every class computes the same numbers as the reference implementation."""

from __future__ import annotations

import inspect

import pytest
import reference
import torch
from cases import TOLERANCE, difference, is_sparse, pads, reads_another

from glassformer.families import classes_of, families
from glassformer.parameter_table import parts_of
from glassformer.weights.quantization import count_parameters

pytestmark = pytest.mark.over(once_per="class")

MASKS = ("attention_mask", "decoder_attention_mask")
LENGTHS = (9, 12, 5, 12, 7, 1)
LONG = (140, 133, 16, 17, 31, 129)  # beyond the block sizes of attention kernels


@pytest.mark.parametrize("model_type", [t for t, family in families().items() if family.TINY])
def test_no_class_of_the_reference_is_missing(model_type):
    ours = set(classes_of(families()[model_type], model_type))
    assert ours == reference.published_classes(model_type)


def test_padded_on_the_right_as_the_reference_pads(case, measured):
    batch = case.batch(LENGTHS, "right")
    assert measured(difference(case.ours(batch), case.theirs(batch))) <= TOLERANCE


@pytest.mark.over(once_per="body")
def test_a_long_text_padded_on_the_right_as_the_reference_pads(case, measured):
    batch = case.batch(LONG, "right")
    assert measured(difference(case.ours(batch), case.theirs(batch))) <= TOLERANCE


@pytest.mark.over(which=pads)
def test_padded_on_the_left_equals_the_reference_without_padding(case, measured):
    batch = case.batch(LENGTHS, "left")
    assert measured(difference(case.ours(batch), case.theirs_alone(LENGTHS))) <= TOLERANCE


@pytest.mark.over(which=is_sparse)
def test_a_long_text_padded_on_the_left_equals_the_reference_without_padding(case, measured):
    batch = case.batch(LONG, "left")
    assert measured(difference(case.ours(batch), case.theirs_alone(LONG))) <= TOLERANCE


def test_without_a_mask(case):
    batch = case.batch((11,) * 4, "right")
    theirs = case.theirs(batch)
    whole = batch.mask
    with torch.no_grad():
        inputs = case.inputs(batch)
        out = case.model(**{k: v for k, v in inputs.items() if k not in MASKS})
    named = {
        **out.head_outputs,
        "hidden": out.last_hidden_state,
        **({} if out.logits is None else {"logits": out.logits}),
    }
    assert difference(case.per_text(named, whole), theirs) <= TOLERANCE


def test_a_bare_model_has_no_logits(case):
    batch = case.batch((4,) * 4, "right")
    with torch.no_grad():
        out = case.model(**case.inputs(batch))
    bare = case.name.architecture.endswith(("Model", "EncoderModel")) and not any(
        part in case.name.architecture for part in ("LMHead", "DoubleHeads", "MTModel", "FSMT")
    )
    assert (out.logits is None) == bare
    width = case.spec.last_stack.out_width
    shape = (len(batch.tokens), 1) if case.spec.last_stack.embed.bag else batch.mask.shape
    assert out.last_hidden_state.shape == (*shape, width)


def test_the_parameter_table_adds_up_to_the_references(case):
    """Tied weights once; without tables that are fixed, and copies that nobody reads."""
    ours = sum(part.count for part in parts_of(case.model) if part.shape is not None)
    dropped = case.model.load_report.dropped
    table = case.spec.last_stack.embed.position
    fixed = table is not None and table.layout != "learned"
    theirs = sum(
        tensor.numel()
        for name, tensor in case.reference.named_parameters()
        if name not in dropped
        and tensor.requires_grad
        and not (fixed and ("embed_positions" in name or "position_embeddings" in name))
    )
    assert ours == count_parameters(case.model) == theirs


@pytest.mark.over(which=reads_another)
def test_cross_attention_without_an_encoder(case):
    """A decoder that can read another model's output: as part of one, and by itself."""
    stack = case.spec.last_stack
    tokens = case.batch((6, 6), "right").tokens
    memory = torch.randn(2, 9, stack.width, generator=torch.Generator().manual_seed(3))
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    inputs = {
        "input_ids": tokens,
        "encoder_hidden_states": memory,
        "encoder_attention_mask": mask.long(),
    }
    if "encoder_outputs" in inspect.signature(case.reference.forward).parameters:
        inputs, mask = {"input_ids": tokens, "encoder_outputs": memory}, None  # sound is all real
    theirs = reference.run(case.reference, inputs)
    with torch.no_grad():
        out = case.model(tokens, encoder_hidden_states=memory, encoder_attention_mask=mask)
    named = {**out.head_outputs, "hidden": out.last_hidden_state, "logits": out.logits}
    shared = [key for key in theirs if named.get(key) is not None]
    assert shared
    assert max(float((named[k] - theirs[k]).abs().max()) for k in shared) <= TOLERANCE
