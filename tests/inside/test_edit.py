"""Edits equal a computation without them: changed weights, a hook, a model with fewer layers."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import small
import torch
from family_models import FAMILIES, case_of, look

import glassformer as gf
from glassformer import adapters, inside
from glassformer.core.input_rules import text_ids
from glassformer.core.transformer import Transformer

TEXT, OTHER = "time flies like an arrow", "fruit flies like a banana"


def case(architecture):
    return case_of(next(n for n in FAMILIES if n.architecture == architecture))


@torch.no_grad()
def hooked(module, change, call):
    """What a reference model gives while a hook changes a module's output."""

    def hook(_, __, out):
        first = change(out[0] if isinstance(out, tuple) else out)
        return (first, *out[1:]) if isinstance(out, tuple) else first

    handle = module.register_forward_hook(hook)
    try:
        return call()
    finally:
        handle.remove()


def test_a_layer_that_is_off_is_a_net_without_it():
    model = small.decoder()
    stack = model.spec.decoder
    fewer = Transformer(
        replace(model.spec, decoder=replace(stack, blocks=stack.blocks[:2], order=()))
    ).eval()
    blocks = model.decoder.blocks
    fewer.load_state_dict(
        {k: v for k, v in model.state_dict().items() if not k.startswith("decoder.blocks.2")}
    )
    fewer.decoder.blocks[1].load_state_dict(blocks[2].state_dict())
    off = model.look(TEXT, edits=inside.ablate_layer(1, model.spec)).logits.array
    with torch.no_grad():
        want = fewer(torch.tensor([model.tokenizer.encode(TEXT).ids])).logits[0]
    assert torch.allclose(off, want, atol=1e-5)


def test_a_layer_of_an_encoder_decoder_loses_cross_attention_too():
    model = small.both()
    edits = inside.ablate_layer(0, model.spec)
    assert [e.at for e in edits] == [
        f"decoder.blocks.0.{part}" for part in ("attn_out", "cross.attn_out", "ffn_out")
    ]
    view = model.look(TEXT, "fruit", edits=edits)
    embedded = view.decoder.residual_before[0].array
    block = model.decoder.blocks[0]
    with torch.no_grad():
        want = block.ffn_norm(block.cross_norm(block.attention_norm(embedded)))
    assert torch.allclose(view.decoder.residual[0].array, want, atol=1e-6)


@pytest.mark.parametrize("positions", [None, [2, 5]])
def test_steering_is_a_hook_on_the_reference(positions):
    """GPT-2's block, whose output is the stream, in transformers."""
    one = case("GPT2LMHeadModel")
    width = one.spec.decoder.width
    vector = torch.randn(width, generator=torch.Generator().manual_seed(3))
    view = look(one, edits=[inside.steer(0, vector, factor=2.5, positions=positions)])
    tokens = text_ids(view.model_inputs.inputs)

    def change(x):
        x = x.clone()
        x[:, slice(None) if positions is None else positions] += 2.5 * vector
        return x

    block = one.reference.transformer.h[0]
    want = hooked(block, change, lambda: one.reference(tokens).logits)
    assert float((view.output.logits - want).abs().max()) <= 1e-5


def test_patching_an_activation_is_a_hook_on_the_reference():
    """Places 1 and 4 of BERT's first layer hear what another text has at 3 and 0."""
    one = case("BertForMaskedLM")
    other = look(one, seed=1)
    text = text_ids(other.model_inputs.inputs)[0].tolist()
    layer = one.reference.bert.encoder.layer[0]
    kept = {}
    with torch.no_grad():
        handle = layer.register_forward_hook(
            lambda _, __, out: kept.update(x=out[0] if isinstance(out, tuple) else out)
        )
        one.reference(torch.tensor([text]))
        handle.remove()
    edit = inside.patch("blocks.0.resid_post", text, positions=[(1, 3), (4, 0)])
    view = look(one, edits=[edit])

    def change(x):
        x = x.clone()
        there = kept["x"].view(-1, x.shape[-1])
        x.view(-1, x.shape[-1])[[1, 4]] = there[[3, 0]]
        return x

    tokens = text_ids(view.model_inputs.inputs)
    want = hooked(layer, change, lambda: one.reference(tokens).logits)
    assert float((view.output.logits - want).abs().max()) <= 1e-5


def test_a_knocked_out_key_is_not_seen():
    """Scores of minus infinity for one key: as if its mask were off, in that layer."""
    model = small.decoder()
    low = torch.finfo(torch.float32).min
    edit = {"kind": "replace", "at": "*.scores", "keys": [1], "positions": [2, 3, 4], "vector": low}
    view = model.look(TEXT, edits=[edit])
    tokens = torch.tensor([model.tokenizer.encode(TEXT).ids])
    with torch.no_grad():
        want = model(
            tokens,
            attention_mask=torch.tensor([[True, False, True, True, True]]),
            position_ids=torch.arange(5)[None],
        ).logits
    assert torch.allclose(view.logits.array[2:], want[0, 2:], atol=1e-5)
    assert float(view.attention[0].array[:, 2:, 1].max()) == 0.0


def test_a_pattern_or_values_that_are_changed_change_the_result_as_by_hand():
    model = small.decoder()
    view = model.look(TEXT)
    pattern, v = view.attention[1].array, view.v[1].array
    halved = model.look(TEXT, edits=[{"kind": "scale", "at": "blocks.1.pattern", "factor": 0.5}])
    assert torch.allclose(halved.z[1].array, 0.5 * pattern @ v, atol=1e-6)
    shifted = {"kind": "add", "at": "blocks.1.v", "vector": [1.0] * 8, "positions": [0]}
    moved = model.look(TEXT, edits=[shifted])
    want = pattern @ v + pattern[..., :1]
    assert torch.allclose(moved.z[1].array, want, atol=1e-5)


def test_what_lies_along_a_vector_is_taken_away():
    model = small.decoder()
    vector = torch.linspace(-1, 2, 32)
    edit = {"kind": "remove", "at": "blocks.0.resid_post", "vector": vector, "positions": [1, 3]}
    plain, view = model.look(TEXT), model.look(TEXT, edits=[edit])
    want = plain.residual[0].array.clone()
    along = vector / vector.norm()
    want[[1, 3]] -= torch.outer(want[[1, 3]] @ along, along)
    assert torch.allclose(view.residual[0].array, want, atol=1e-6)
    assert float((view.residual[0].array[[1, 3]] @ vector).abs().max()) <= 1e-5
    halved = model.look(TEXT, edits=[{**edit, "factor": 0.5, "positions": None}]).residual[0].array
    assert torch.allclose(halved @ along, plain.residual[0].array @ along / 2, atol=1e-5)


def test_a_part_that_says_the_mean_of_texts():
    model = small.decoder()
    texts = [TEXT, "a robot must"]
    at = "blocks.1.attn_out"
    want = torch.cat([model.look(text).attention_out[1].array for text in texts]).mean(0)
    found = inside.mean(model, at, texts)
    assert torch.allclose(found, want, atol=1e-6)
    view = model.look(TEXT, edits=[{"kind": "replace", "at": at, "vector": found}])
    assert torch.allclose(view.attention_out[1].array, want.expand(5, -1), atol=1e-6)
    with pytest.raises(gf.GlassformerError, match="list of texts"):
        inside.mean(model, at, TEXT)


def test_edits_apply_in_their_order_and_end_with_the_context():
    model = small.decoder()
    plain = model.look(TEXT).logits.array
    add = {"kind": "add", "at": "blocks.0.resid_post", "vector": [1.0] * 32}
    double = {"kind": "scale", "at": "blocks.0.resid_post", "factor": 2.0}
    before = model.look(TEXT).residual[0].array
    with model.edit(add), model.edit(double):
        view = model.look(TEXT)
        assert torch.allclose(view.residual[0].array, (before + 1) * 2, atol=1e-6)
        assert len(view.edits) == 2
    assert torch.allclose(view.residual[0].array, (before + 1) * 2)
    assert torch.allclose(view.residual[1].array, view.residual_before[2].array)  # still edited
    assert torch.equal(model.look(TEXT).logits.array, plain)
    with pytest.raises(RuntimeError), model.edit(add):
        raise RuntimeError
    assert torch.equal(model.look(TEXT).logits.array, plain)
    swapped = model.look(TEXT, edits=[double, add]).residual[0].array
    assert torch.allclose(swapped, before * 2 + 1, atol=1e-6)


def test_contributions_add_up_under_edits_and_name_them():
    model = small.decoder()
    edits = [
        inside.ablate_heads(1, [0]),
        inside.steer(0, torch.linspace(-1, 1, 32)),
        {"kind": "scale", "at": "blocks.2.ffn_out", "factor": 3.0},
    ]
    found = model.look(TEXT, edits=edits).contributions()
    assert abs(found.total - found.logit) <= 1e-4
    assert float(found.heads.array[1, 0]) == 0.0
    assert abs(found.by_kind()["edit"]) > 1e-3


def test_tasks_and_batches_hear_edits():
    model = small.encoder("SequenceClassification")
    texts = [TEXT, "a robot must obey", OTHER]
    before = [one.probabilities for one in model.classify(texts)]
    with model.edit(inside.ablate_heads(0, [0, 1, 2, 3])):
        together = [one.probabilities for one in model.classify(texts)]
        alone = [model.classify(text).probabilities for text in texts]
    for one, other, was in zip(together, alone, before, strict=True):
        assert one == pytest.approx(other, abs=1e-5) and one != pytest.approx(was, abs=1e-4)


def test_an_adapter_goes_on_under_an_edit():
    model = small.decoder()
    model.adapters.add(adapters.Prefix(num_virtual_tokens=3))
    plain = model.look(TEXT).logits.array
    assert model.look(TEXT).attention[0].shape == (4, 5, 8)
    with model.edit({"kind": "scale", "at": "blocks.0.z", "factor": 1.0}):
        assert torch.equal(model.look(TEXT).logits.array, plain)
    with model.edit(inside.steer(1, torch.linspace(-1, 1, 32), positions=[4])):
        steered = model.look(TEXT)
    assert torch.equal(steered.logits.array[:4], plain[:4])
    assert not torch.allclose(steered.logits.array[4], plain[4])
    model.adapters.remove()


def test_a_prompt_in_front_moves_nothing_out_of_place():
    """An adapter's tokens stand before the text; places still count from its own first token."""
    model = small.decoder()
    model.adapters.add(adapters.Prompt(num_virtual_tokens=2))
    view = model.look(TEXT)
    assert view.residual[0].shape == (5, 32) and view.attention[0].shape == (4, 5, 7)
    found = view.contributions()
    assert abs(found.total - found.logit) <= 1e-4
    assert float(view.lens().divergence.array[-1].abs().max()) <= 1e-5
    for at in ("blocks.1.resid_post", "blocks.0.v", "blocks.2.pattern"):
        same = {"kind": "patch", "at": at, "from": TEXT}
        assert torch.equal(model.look(TEXT, edits=[same]).logits.array, view.logits.array)
    other = {"kind": "patch", "at": "blocks.2.resid_post", "from": OTHER, "positions": [3]}
    patched = model.look(TEXT, edits=[other]).logits.array
    assert torch.allclose(patched[3], model.look(OTHER).logits.array[3], atol=1e-6)


def test_edits_are_values():
    edit = inside.patch("blocks.0.z", "a text", positions=[1, (2, 3)], heads=[1])
    assert edit.positions == ((1, 1), (2, 3))
    assert inside.Edit.of(edit.json()) == edit
    assert copy.copy(edit) == edit and hash(edit)
    assert inside.steer(2, torch.ones(3)).json() == {
        "kind": "add",
        "at": "blocks.2.resid_post",
        "vector": (1.0, 1.0, 1.0),
    }


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"kind": "mend", "at": "embed"}, "one of scale, add, remove, replace, patch"),
        ({"kind": "scale", "at": "blocks.9.z"}, "nearest name"),
        ({"kind": "scale"}, "needs 'at'"),
        ({"kind": "add", "at": "embed"}, "needs 'vector'"),
        ({"kind": "patch", "at": "embed"}, "needs 'from'"),
        ({"kind": "scale", "at": "blocks.0.z", "heads": [9]}, "heads 0 to 3, not 9"),
        ({"kind": "scale", "at": "embed", "heads": [0]}, "no axis 'head'"),
        ({"kind": "scale", "at": "embed", "positions": [-1]}, "of at least 0"),
        ({"kind": "add", "at": "embed", "vector": [1.0]}, "1 numbers"),
        ({"kind": "scale", "at": "embed", "strength": 2}, "no 'strength'"),
        ({"kind": "scale", "at": "embed", "factor": "x"}, "factor must contain numbers"),
        ({"kind": "scale", "at": "embed", "positions": 3}, "positions must be a list"),
        ({"kind": "add", "at": "embed", "vector": ["x"]}, "vector must contain numbers"),
        ({"kind": "add", "at": "embed", "vector": "x"}, "vector must be a list"),
        ({"kind": "patch", "at": "embed", "from": OTHER, "positions": [[0, 9]]}, "no position 9"),
    ],
)
def test_a_wrong_edit_is_said(edit, says):
    model = small.decoder()
    with pytest.raises(gf.GlassformerError, match=says):
        model.look(TEXT, edits=[edit])
