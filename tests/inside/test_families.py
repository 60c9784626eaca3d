"""Views, contributions and edits, for a class of every family."""

from __future__ import annotations

import pytest
import torch
from cases import in_transformers
from family_models import CONFIGS, FAMILIES, HEADS, case_of, look, text_of
from reference import named

import glassformer as gf
from glassformer.core.input_rules import input_name
from glassformer.inside.capture.names import names_of

IDS = [name.architecture for name in FAMILIES]
over_families = pytest.mark.parametrize("name", FAMILIES, ids=IDS)


def comparable(name):
    """The reference is there, and of rivals it reads several texts at once."""
    return in_transformers(name) and not any(head.multiple_choice for head in name.spec.heads)


def attends(name):
    return bool(name.spec.last_stack.attention_blocks)


def reference(case, view):
    inputs = view.model_inputs.inputs
    if case.both and not case.spec.shift_right:
        first = inputs[input_name(case.spec)]
        read = {**given(first), "decoder_input_ids": inputs["decoder_input_ids"]}
    else:
        read = given(inputs[input_name(case.spec)])
    asked = {"output_attentions": True, "output_hidden_states": True}
    if hasattr(case.reference.config, "use_cache"):
        asked["use_cache"] = False
    body = getattr(case.reference, "base_model", None)
    if hasattr(body, "set_attention_type"):
        body.set_attention_type("original_full")
    with torch.no_grad():
        return case.reference(**read, **asked)


def given(tokens):
    mask = torch.ones_like(tokens, dtype=torch.bool)
    return {k: v for k, v in named(tokens, mask).items() if k != "attention_mask"}


def patterns(out, key):
    """[head, query, key] for every layer."""
    found = [each[0] for each in out[key]]
    if not hasattr(out, "global_attentions"):
        return found
    everywhere = out.global_attentions or [each[None, ..., :0] for each in found]
    return [unfolded(one, more[0]) for one, more in zip(found, everywhere, strict=True)]


def unfolded(near_by, everywhere):
    """Longformer's: a row has the first tokens, which all see, and then a window around its own; of
    those that see all, there are the rows [head, key, number]."""
    heads, length, _ = near_by.shape
    first = everywhere.shape[-1]
    window = near_by.shape[-1] - first
    whole = torch.zeros(heads, length, length)
    for query in range(length):
        for place in range(window):
            at = query + place - window // 2
            if first <= at < length:
                whole[:, query, at] = near_by[:, query, first + place]
        whole[:, query, :first] = near_by[:, query, :first]
    whole[:, :first] = everywhere.transpose(1, 2)[..., :length]  # it pads to whole windows
    return whole


def near(ours, theirs):
    return float((ours - theirs).abs().max())


@pytest.mark.parametrize("name", [n for n in [*CONFIGS, *HEADS] if comparable(n)], ids=str)
def test_attentions_and_hidden_states_are_the_references(name):
    case = case_of(name)
    view = look(case)
    out = reference(case, view)
    if case.both:
        sides = {
            "decoder_attentions": view.decoder,
            "encoder_attentions": view.encoder,
            "cross_attentions": view.cross,
        }
        states = {"decoder_hidden_states": view.decoder, "encoder_hidden_states": view.encoder}
    else:
        sides, states = {"attentions": view}, {"hidden_states": view}
    for key, side in sides.items():
        for theirs, ours in zip(patterns(out, key), side.attention, strict=True):
            assert near(ours.array, theirs) <= 1e-5, key
    for key, side in states.items():
        theirs = [state[0] for state in out[key]]
        assert near(side.embedding.array, theirs[0]) <= 1e-5
        for layer in range(1, len(theirs) - 1):
            assert near(side.residual_before[layer].array, theirs[layer]) <= 2e-5, (key, layer)
        last = (side.residual[-1].array, side.final.array)  # some give it with the final norm
        assert min(near(x, theirs[-1]) for x in last if x.shape == theirs[-1].shape) <= 2e-5


@pytest.mark.parametrize("name", [*CONFIGS, *HEADS], ids=str)
def test_the_parts_of_a_logit_add_up_to_it(name):
    case = case_of(name)
    view = look(case)
    heads = [h for h in case.spec.heads if h.num_outputs is not None and not h.auxiliary]
    if not heads:
        with pytest.raises(gf.GlassformerError, match="no head with outputs"):
            view.contributions()
    for head in heads:
        found = view.contributions(head=head.name)
        assert abs(found.total - found.logit) <= 1e-4
        assert len(found.parts) > 3 or case.hops or not case.spec.last_stack.attention_blocks
        layer = len(view.spec.order) - 1
        if f"{view.stack}.blocks.{layer}.ffn_post" in names_of(case.spec):
            told = view.contributions(head=head.name, neurons=layer)
            assert abs(told.total - told.logit) <= 1e-4
            more, whole = told.by_kind(), found.by_kind()["feed-forward"]
            rest = more.get("feed-forward", 0.0) + more["feed-forward bias"] + more["neuron"]
            assert rest == pytest.approx(whole, abs=1e-5)
        if (head.num_outputs or 1) > 2:
            pair = view.contributions(1, versus=2, head=head.name)
            assert abs(pair.total - pair.logit) <= 1e-4


@over_families
def test_the_lens_ends_in_what_is_said(name):
    case = case_of(name)
    view = look(case)
    if not any(h.pooling == "each" and (h.num_outputs or 1) > 1 for h in case.spec.heads):
        with pytest.raises(gf.GlassformerError, match="no language modeling head"):
            view.lens()
        return
    lens = view.lens(top=3)
    probs = view.logits.array.softmax(-1)
    assert torch.equal(lens.best.array[-1], probs.topk(3).indices)
    assert near(lens.best_probability.array[-1], probs.topk(3).values) <= 1e-6
    assert float(lens.divergence.array[-1].abs().max()) <= 1e-5
    assert torch.equal(lens.rank.array[-1], torch.zeros_like(lens.rank.array[-1]))


@over_families
def test_a_patch_with_itself_changes_nothing_to_the_bit(name):
    """Of each tensor, and of all at once; nor does it change anything to look at all of them."""
    case = case_of(name)
    (text, target), plain = text_of(case), look(case)
    everything = look(case, at="*")
    assert torch.equal(everything.output.last_hidden_state, plain.output.last_hidden_state)
    names = {n.split(".")[-1] for n in everything.cache}
    for at in ("*", *(f"*.{end}" for end in sorted(names))):
        edit = {"kind": "patch", "at": at, "from": text, "from_target": target}
        assert torch.equal(
            look(case, edits=[edit]).output.last_hidden_state, plain.output.last_hidden_state
        ), at


@pytest.mark.parametrize("name", [n for n in FAMILIES if attends(n)], ids=str)
def test_a_head_that_is_off_is_columns_of_zeros(name):
    case = case_of(name)
    view = look(case)
    stack = getattr(case.model, view.stack)
    block = stack.blocks[stack.spec.order[-1]]
    last = len(stack.spec.order) - 1
    dim = block.spec.attention.head_dim
    off = look(case, edits=[gf.inside.ablate_heads(last, [1])]).output.last_hidden_state
    weight, kept = block.attention.out.weight, block.attention.out.weight.detach().clone()
    with torch.no_grad():
        weight[:, dim : 2 * dim] = 0
        if stack.spec.order.count(stack.spec.order[-1]) == 1:  # else all its layers are changed
            assert near(look(case).output.last_hidden_state, off) <= 1e-5
        weight.copy_(kept)
    assert near(look(case).output.last_hidden_state, off) > 1e-6
