"""Every number of the walkthrough is explained by terms that sum to it, in every family."""

from __future__ import annotations

import math
import random

import pytest
import torch

import glassformer as gf
from glassformer.core.activation import ACTIVATIONS
from glassformer.errors import GlassformerError
from glassformer.families import classes_of, families, spec_from_config
from glassformer.inside.capture.look import look
from glassformer.inside.explain.cells import Cell, cell
from glassformer.inside.explain.recompute import array
from glassformer.inside.explain.steps import steps
from glassformer.spec import ModelSpec, TokenEmbeddingSpec


def spec_of(model_type: str) -> ModelSpec:
    """Of a family's last TINY config, with a head for the vocabulary where it has one."""
    family = families()[model_type]
    classes = list(classes_of(family, model_type))
    named = [name for name in classes if "LM" in name or "Generation" in name]
    return spec_from_config({"model_type": model_type, **family.TINY[-1]}, (named or classes)[0])


def tiny(spec: ModelSpec) -> gf.Model:
    """With biases and scales that are neither zero nor one."""
    model = gf.create(spec, seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor += torch.randn(tensor.shape, generator=generator) * 0.1
    return model


def explains(found: Cell) -> float:
    """The value again, from the numbers that are told."""
    parts, told = found.parts, [t.a if t.product is None else t.product for t in found.terms]
    match found.how:
        case "sum":
            return sum(t.a for t in found.terms)
        case "norm" if "mean" in parts:
            inner = sum(t.a for t in found.terms) - parts["mean"]
            return inner / parts["deviation"] * parts["gain"] + parts.get("bias", 0.0)
        case "dot" | "weighted" | "rotate" | "scale" | "product":
            if "cap" in parts:
                return parts["cap"] * math.tanh(sum(told) / parts["cap"])
            return sum(told) + parts.get("bias", 0.0)
        case "cap":
            return parts["cap"] * math.tanh(found.terms[0].a / parts["cap"])
        case "softmax":
            return math.exp(found.terms[0].a - parts["largest"]) / parts["total"]
        case "mask" if parts.get("hidden") == 0.0:
            return sum(t.a for t in found.terms)
        case "activation":
            x = torch.tensor(parts["x"], dtype=torch.float64)
            return float(ACTIVATIONS[parts["activation"]](x))
    return found.value


def reads_text(spec: ModelSpec) -> bool:
    stacks = [stack for stack in (spec.encoder, spec.decoder) if stack is not None]
    return all(
        isinstance(s.embed, TokenEmbeddingSpec) and len(s.attention_blocks) > 0 for s in stacks
    )


TYPES = [name for name, family in families().items() if family.TINY]
SPECS = {name: spec for name in TYPES if reads_text(spec := spec_of(name))}


def test_what_an_encoder_has_read_has_its_own_length_and_width():
    view = look(tiny(SPECS["bart"]), [5, 3, 4, 5], [4, 3, 5, 4, 3, 5, 4])
    shapes = {step.kind: step.shape for step in steps(view, "decoder", 0, 1)}
    width = view.model.spec.encoder.width
    assert shapes["memory"] == tuple(array(view, "encoder.final").shape) == (4, width)
    own = len(view.tokens)
    assert own == 8 == shapes["norm"][0] == shapes["cross_q"][1] == shapes["cross_softmax"][1]
    assert shapes["cross_k"][1] == shapes["cross_softmax"][2] == 4


@pytest.mark.parametrize("model_type", SPECS)
def test_cells_add_up(model_type):
    model, draw = tiny(SPECS[model_type]), random.Random(3)
    both = model.encoder is not None and model.decoder is not None
    view = look(model, [5, 3, 4, 5], [4, 3, 5] if both and not model.spec.shift_right else None)
    for stack in ("encoder", "decoder"):
        if getattr(model.spec, stack) is None:
            continue
        last = len(getattr(model.spec, stack).order) - 1
        for step in steps(view, stack, last, 1):
            if step.array is None:
                continue
            found = array(view, step.array)
            assert found.axes == step.axes, step
            if not model.spec.last_stack.empty_memory_slots and step.shape != found.shape:
                raise AssertionError((step, found.shape))
            head = 1 if "head" in found.axes[0] else None
            for _ in range(3):
                row, col = (draw.randrange(size) for size in found.shape[-2:])
                try:
                    told = cell(view, step.array, row, col, head=head, limit=draw.choice((3, 100)))
                except GlassformerError as error:
                    assert "Compressed keys" in str(error)
                    continue
                assert told.value == pytest.approx(explains(told), rel=1e-3, abs=1e-4), step


def test_a_product_without_a_bias_tells_of_none():
    """What rounding leaves is no bias."""
    plain, biased = (
        gf.create("llama-3.2-1b", attention_bias=given, **LLAMA, seed=1) for given in (False, True)
    )
    with torch.no_grad():
        biased.decoder.blocks[0].attention.qkv.bias += 0.3
    ids = list(range(5, 25))
    for model, told in ((plain, False), (biased, True)):
        view = model.look(ids)
        found = steps(view, "decoder", 0, 0)
        query = next(step for step in found if step.kind == "q")
        score = next(step for step in found if step.kind == "dot")
        for row in range(20):
            assert ("bias" in cell(view, query.array, row, 3, head=0).parts) == told
            assert "bias" not in cell(view, score.array, row, 0, head=0).parts


LLAMA = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
