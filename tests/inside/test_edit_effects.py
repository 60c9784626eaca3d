"""Effects of edits, compared with plain logits, and the short lens with the full one."""

from __future__ import annotations

import pytest
import small
import torch

from glassformer import inside
from glassformer.inside.capture.cancellation import cancellable
from glassformer.inside.intervene.edit_effects import edit_effects, lens_changes, weight_changes

TEXT = "time flies like an arrow"


@pytest.mark.parametrize("make", [small.decoder, small.encoder, small.both])
def test_the_lens_of_layers_is_that_of_both_runs(make):
    model = make()
    before = model.look(TEXT)
    after = model.look(TEXT, edits=[inside.ablate_heads(1, [0, 2], stack=before.stack)])
    found = lens_changes(before, after)
    for view, said in ((before, found.before), (after, found.after)):
        whole = view.lens(top=1)
        rows = [whole.stages.index(stage) for stage in found.stages]
        assert [part for _, part in found.stages] == ["embedding"] + ["feed-forward"] * (
            len(rows) - 1
        )
        assert torch.equal(said.best.array, whole.best.array[rows, :, 0])
        assert torch.allclose(said.probability.array, whole.best_probability.array[rows, :, 0])
    assert not torch.equal(found.before.probability.array[2:], found.after.probability.array[2:])


def test_what_an_edit_leaves_alone_is_not_read_again():
    model = small.decoder()
    before = model.look(TEXT)
    lens_changes(before, before)
    after = model.look(TEXT, edits=[inside.ablate_heads(2, [1])])
    after.run_with_cache(before.cache)
    rows = []
    (head,) = model.heads.values()
    head.register_forward_hook(lambda _, read, __: rows.append(read[0].shape[1]))
    lens_changes(before, after)
    assert sum(rows) == len(before.tokens)  # of the last layer alone


def test_nothing_moves_without_an_edit():
    view = small.decoder().look(TEXT)
    found = edit_effects(view, view, 2)
    assert found.before == found.after
    assert (found.divergence.array == 0).all()


def test_weights_may_start_from_zero():
    before, after = small.decoder(), small.decoder()
    started = "decoder.blocks.1.ffn.up.weight"
    moved = "decoder.blocks.0.ffn.up.weight"
    with torch.no_grad():
        before.get_parameter(started).zero_()
        after.get_parameter(moved).mul_(0.5)
    found = dict(weight_changes(before, after))
    assert found.pop(started) == pytest.approx(1)
    assert found.pop(moved) == pytest.approx(0.5)
    assert not any(found.values())


def test_a_pause_may_end_a_lens():
    view = small.decoder().look(TEXT)
    view.run_with_cache()

    def stop():
        raise TimeoutError

    with cancellable(stop), pytest.raises(TimeoutError):
        view.lens()
    assert view.lens().best.array.shape[1] == len(view.tokens)
