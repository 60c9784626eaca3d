"""Leaving out and swapping tokens, compared with a separate pass for every changed text."""

from __future__ import annotations

import math

import pytest
import small
import torch

import glassformer as gf

TEXT = "time flies like an arrow"


def passes(model: gf.Model, ids: list[int], **more: list[int]) -> torch.Tensor:
    """The logits of one text alone."""
    rows = {name: torch.tensor([row]) for name, row in more.items()}
    with torch.no_grad():
        return model(torch.tensor([ids]), **rows).logits[0].float()


def ids_of(view: gf.inside.View) -> list[int]:
    return view.model_inputs.inputs["input_ids"][0].tolist()


def test_a_decoder_without_each_token():
    model = small.decoder()
    view = model.look(TEXT)
    ids, position = ids_of(view), 3
    best = int(passes(model, ids)[position].argmax())
    found = view.occlusion(position=position)
    assert found.output == best and len(found.changes) == 4  # what comes later is not seen
    for at in range(4):
        left = passes(model, [*ids[:at], *ids[at + 1 :]])[position - 1]
        fall = found.logit - float(left[best])
        assert float(found.values.array[at]) == pytest.approx(fall, abs=1e-4)
        assert found.changes[at].probability == pytest.approx(float(left.softmax(-1)[best]))
        assert found.changes[at].best == view.token_text(int(left.argmax()))
    assert found.values.array[4].isnan()
    assert not view.occlusion(position=0).changes  # nothing would be left to predict after


def test_a_decoder_with_each_token_swapped_for_what_it_would_write():
    model = small.decoder()
    view = model.look(TEXT)
    ids = ids_of(view)
    logits = passes(model, ids)
    found = view.swap(5, count=2)
    for at in range(1, len(ids)):
        scores = logits[at - 1].clone()
        scores[[ids[at], *model.tokenizer.special_ids]] = -math.inf
        wanted = scores.topk(2).indices.tolist()
        own = [one for one in found.changes if one.position == at]
        assert [one.replacement for one in own] == wanted
        after = [float(passes(model, [*ids[:at], id, *ids[at + 1 :]])[-1, 5]) for id in wanted]
        assert [one.logit for one in own] == pytest.approx(after, abs=1e-4)
        mean = found.logit - sum(after) / 2
        assert float(found.values.array[at]) == pytest.approx(mean, abs=1e-4)
    assert found.values.array[0].isnan()  # nothing predicts the first token


def test_tokens_that_one_names():
    model = small.decoder()
    view = model.look(TEXT)
    ids, banana = ids_of(view), model.tokenizer.id("banana")
    (change,) = view.swap(5, replacements={-1: ["banana"]}).changes
    after = passes(model, [*ids[:-1], banana])[-1]
    assert (change.position, change.replacement) == (4, banana)
    assert change.logit == pytest.approx(float(after[5]), abs=1e-4)
    with pytest.raises(gf.errors.ConfigError, match="one token of the vocabulary"):
        view.swap(replacements={0: ["fruit banana"]})


def test_a_masked_encoder():
    model = small.encoder()
    mask = model.tokenizer.special["mask"]
    view = model.look("time [MASK] like an arrow")
    ids = ids_of(view)
    at = ids.index(mask)
    found = view.occlusion(7)
    assert [one.position for one in found.changes] == [1, 3, 4, 5]  # not frame nor gap
    for one in found.changes:
        left = passes(model, [*ids[: one.position], *ids[one.position + 1 :]])
        row = left[at - (one.position < at)]
        assert one.logit == pytest.approx(float(row[7]), abs=1e-4)
    swapped = view.swap(7, count=1)
    for one in swapped.changes:
        hidden = [*ids[: one.position], mask, *ids[one.position + 1 :]]
        scores = passes(model, hidden)[one.position]
        scores[[ids[one.position], *model.tokenizer.special_ids]] = -math.inf
        assert one.replacement == int(scores.argmax())


def test_labels_of_a_text_and_of_its_tokens():
    model = small.several()
    for name, position in (("topic", None), ("names", 2)):
        view = model.look(TEXT, head=name)
        ids, found = ids_of(view), view.occlusion(1, position=position)
        for one in found.changes:
            left = [*ids[: one.position], *ids[one.position + 1 :]]
            with torch.no_grad():
                out = model(torch.tensor([left])).head_outputs[name][0].float()
            row = out if position is None else out[position - (one.position < position)]
            assert one.logit == pytest.approx(float(row[1]), abs=1e-4)
            assert one.probability == pytest.approx(float(row.softmax(-1)[1]), abs=1e-5)
        assert view.swap(1, position=position).changes  # proposed by the head for masked words


def test_an_answer_moves_with_its_tokens():
    model = small.encoder("QuestionAnswering")
    view = model.look(TEXT)
    ids, place = ids_of(view), 3
    found = view.occlusion(0, position=place)  # the logit that the answer starts at 3
    assert place not in [one.position for one in found.changes]
    for one in found.changes:
        left = [*ids[: one.position], *ids[one.position + 1 :]]
        with torch.no_grad():
            starts = next(iter(model(torch.tensor([left])).head_outputs.values()))[0][:, 0]
        moved = place - (one.position < place)
        assert one.logit == pytest.approx(float(starts[moved]), abs=1e-4)
        best = int(starts.argmax())
        assert one.best == view.tokens[best + (best >= one.position)].text
    with pytest.raises(gf.errors.UnsupportedError, match="name `replacements`"):
        view.swap(0, position=place)


def test_an_encoder_decoder_without_tokens_of_either_side():
    model = small.both()
    view = model.look(TEXT, "fruit flies")
    source = ids_of(view)
    target = view.model_inputs.inputs["decoder_input_ids"][0].tolist()
    found = view.occlusion(6)
    assert found.source is not None and {one.stack for one in found.changes} == {
        "encoder",
        "decoder",
    }
    for one in found.changes:
        rows = {"encoder": list(source), "decoder": list(target)}
        del rows[one.stack][one.position]
        after = passes(model, rows["encoder"], decoder_input_ids=rows["decoder"])[-1, 6]
        assert one.logit == pytest.approx(float(after), abs=1e-4)
    fruit = {at: ["fruit"] for at, token in enumerate(view.encoder.tokens) if token.text == "time"}
    (change,) = view.swap(6, replacements=fruit, stack="encoder").changes
    swapped = [model.tokenizer.id("fruit") if at in fruit else id for at, id in enumerate(source)]
    after = passes(model, swapped, decoder_input_ids=target)[-1, 6]
    assert change.logit == pytest.approx(float(after), abs=1e-4)


def test_edits_stay_on():
    off = {"kind": "scale", "at": "decoder.blocks.1.z", "heads": [2], "factor": 0}
    model = small.decoder()
    edited, plain = model.look(TEXT, edits=[off]), model.look(TEXT)
    ids = ids_of(plain)
    with model.edit(off):
        after = passes(model, ids[1:])[-1]
    found = edited.occlusion(5)
    assert found.changes[0].logit == pytest.approx(float(after[5]), abs=1e-4)
    assert not torch.allclose(found.values.array, plain.occlusion(5).values.array)
    placed = model.look(TEXT, edits=[{**off, "positions": [2]}])
    with pytest.raises(gf.errors.UnsupportedError, match="shift"):
        placed.occlusion(5)
    assert placed.swap(5).changes


def test_agreement_is_spearmans_rank_correlation():
    view = small.decoder().look(TEXT)
    effects, estimate = view.occlusion(5), view.gradient_x_input(5)
    ranks = [x.array.argsort().argsort().double() for x in (effects.values, estimate.values)]
    distance = float(((ranks[0] - ranks[1]) ** 2).sum())
    n = len(ranks[0])
    assert effects.agreement(estimate) == pytest.approx(1 - 6 * distance / (n * (n * n - 1)))
    assert effects.agreement(effects.values) == pytest.approx(1)


def test_effects_are_displayed():
    html = small.both().look(TEXT, "fruit flies").occlusion()._repr_html_()
    assert "flies" in html and "nan" not in html
