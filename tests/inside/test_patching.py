"""Patching sweeps and paths, compared with single patches and explicit computations."""

from __future__ import annotations

import pytest
import small
import torch

import glassformer as gf
from glassformer import inside
from glassformer.inside.intervene.patching import aligned, path, sweep

TEXT, OTHER = "time flies like an arrow", "fruit flies like a banana"


@pytest.mark.parametrize("tensor", ["resid_pre", "ffn_out", "z", "pattern"])
def test_a_sweep_is_patches_one_by_one(tensor):
    model = small.decoder()
    found = sweep(model, TEXT, OTHER, tensor, token="arrow", versus="banana")
    ids = [model.tokenizer.id(word) for word in ("arrow", "banana")]

    def difference(view):
        return float(view.logits.array[-1, ids[0]] - view.logits.array[-1, ids[1]])

    by_head = found.axes == ("layer", "head")
    assert by_head == (tensor in ("z", "pattern"))
    plain = difference(model.look(TEXT))
    for layer, place in ((0, 0), (1, 3), (2, 2)):
        where = {"heads": [place]} if by_head else {"positions": [place]}
        edit = inside.Edit(kind="patch", at=f"blocks.{layer}.{tensor}", source=OTHER, **where)
        want = difference(model.look(TEXT, edits=[edit])) - plain
        assert float(found.array[layer, place]) == pytest.approx(want, abs=1e-5)


def test_a_sweep_of_heads_at_every_position():
    model = small.decoder()
    found = sweep(model, TEXT, OTHER, "z", token="arrow", by_position=True)
    assert found.axes == ("layer", "head", "position") and found.shape == (3, 4, 5)
    id, plain = model.tokenizer.id("arrow"), model.look(TEXT).logits.array
    for layer, head, place in ((0, 1, 0), (1, 3, 4), (2, 2, 4)):
        edit = inside.patch(f"blocks.{layer}.z", OTHER, positions=[place], heads=[head])
        want = float(model.look(TEXT, edits=[edit]).logits.array[-1, id] - plain[-1, id])
        assert float(found.array[layer, head, place]) == pytest.approx(want, abs=1e-5)
    with pytest.raises(gf.GlassformerError, match="which has no somewhere"):
        sweep(model, TEXT, OTHER, "somewhere")


def test_texts_of_other_lengths_are_aligned():
    """Equal words are paired, and of replaced ones the last; nothing else is patched."""
    model, longer = small.decoder(), "time flies like a fruit banana"
    found = sweep(model, TEXT, longer, token="arrow")
    id, plain = model.tokenizer.id("arrow"), model.look(TEXT).logits.array
    for layer, place, there in ((1, 1, 1), (1, 3, 4), (2, 4, 5)):
        edit = {"kind": "patch", "at": f"blocks.{layer}.resid_pre", "from": longer}
        view = model.look(TEXT, edits=[{**edit, "positions": [(place, there)]}])
        want = float(view.logits.array[-1, id] - plain[-1, id])
        assert float(found.array[layer, place]) == pytest.approx(want, abs=1e-5)
    assert aligned([1, 2, 3], [1, 3]) == [(0, 0), (2, 1)]
    dropped = sweep(model, TEXT, "time flies an arrow", token="arrow")
    assert dropped.array[0, 2] == 0  # this word has no partner
    with pytest.raises(gf.GlassformerError, match="5 and 6 tokens"):
        sweep(model, TEXT, longer, "pattern")


def test_a_path_from_a_head_to_the_end_is_its_direct_effect():
    """All other heads and layers said what they said, so the last stream differs by the head's own
    words alone."""
    model = small.decoder()
    clean, other = model.look(TEXT), model.look(OTHER)
    found = path(
        model,
        TEXT,
        OTHER,
        senders=[{"at": "blocks.0.z", "heads": [1]}],
        receivers=["final"],
        freeze_feed_forward=True,
    )
    out = model.decoder.blocks[0].attention.out.weight[:, 8:16]
    change = (other.z[0, 1].array - clean.z[0, 1].array) @ out.T
    with torch.no_grad():
        want = model.readout((clean.residual[-1].array + change)[None])[0]
    assert torch.allclose(found.logits.array, want, atol=1e-5)


def test_a_path_from_a_head_to_a_query_changes_that_query_alone():
    model = small.decoder()
    clean, other = model.look(TEXT), model.look(OTHER)
    receiver = {"at": "blocks.1.q", "heads": [2]}
    sender = {"at": "blocks.0.z", "heads": [1]}
    found = path(model, TEXT, OTHER, senders=[sender], receivers=[receiver])
    block = model.decoder.blocks[0]
    change = (other.z[0, 1].array - clean.z[0, 1].array) @ block.attention.out.weight[:, 8:16].T
    with torch.no_grad():
        mid = clean.residual_between[0].array + change
        up = block.ffn.activation(block.ffn.up(block.ffn_norm(mid)))
        stream = mid + block.ffn.down(up)
        later = model.decoder.blocks[1]
        rows = later.attention.qkv(later.attention_norm(stream))[:, 16:24]
    assert torch.allclose(found.q[1, 2].array, rows, atol=1e-5)
    assert torch.equal(found.q[1, 1].array, clean.q[1, 1].array)
    assert torch.equal(found.z[0].array, clean.z[0].array)
    assert not torch.allclose(found.logits.array, clean.logits.array, atol=1e-5)
