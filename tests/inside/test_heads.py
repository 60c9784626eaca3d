"""One body with several heads: whatever is asked about an output is asked of the head that is
named, and its numbers are those of the verb that uses it."""

from __future__ import annotations

import math

import pytest
import small
import torch

import glassformer as gf
from glassformer import inside
from glassformer.inside.explain.recompute import array
from glassformer.inside.intervene.choices import choices, stage_choice
from glassformer.inside.intervene.edit_effects import edit_effects, lens_changes
from glassformer.inside.intervene.patching import path, sweep

TEXT, OTHER = "time flies like an arrow", "fruit flies like a banana"
TEXTS = [TEXT, OTHER, "a robot must obey orders", "human beings given it by the robot"]
LAST_OFF = inside.Edit.of({"kind": "scale", "at": "blocks.1.z", "heads": [2], "factor": 0.0})


@pytest.fixture(scope="module")
def model() -> gf.Model:
    return small.several()


def logits(model: gf.Model, head: str, text: str = TEXT, **how) -> torch.Tensor:
    return model.look(text, **how).output.head_outputs[head][0]


@pytest.mark.parametrize("head", ["topic", "mood"])
def test_a_text_s_labels_are_those_of_classify(model, head):
    said = model.classify(TEXT, head=head).probabilities
    view = model.look(TEXT, head=head)
    assert view.logits.axes == ("label",)
    assert view.logits.array.softmax(-1).tolist() == pytest.approx(list(said.values()), abs=1e-6)
    for found in (view.predictions(), model.look(TEXT).predictions(head=head)):
        assert {one.text: one.probability for one in found} == pytest.approx(said, abs=1e-6)
    best = choices(view)[0].candidates[0]
    assert best.text == max(said, key=said.__getitem__)
    assert array(view, "probabilities").labels["label"] == tuple(small.LABELED[head][1])


@pytest.mark.parametrize("head", ["names", "speech"])
def test_the_end_of_a_lens_is_what_tag_says(model, head):
    words = model.tag(TEXT, head=head, split="spaces").words
    for lens in (model.look(TEXT, head=head).lens(), model.look(TEXT).lens(head=head)):
        for place, word in enumerate(words, 1):  # behind [CLS]
            assert lens.text(-1, place) == word.tag
            last = float(lens.best_probability.array[-1, place, 0])
            assert last == pytest.approx(word.probability, abs=1e-6)
    cell = stage_choice(model.look(TEXT, head=head), -1, 1)
    assert cell.candidates[0].text == words[0].tag


@pytest.mark.parametrize(
    ("head", "token"), [("mood", "good"), ("topic", "law"), ("speech", "verb")]
)
def test_parts_and_gradients_add_up_to_the_head_s_own_logit(model, head, token):
    view = model.look(TEXT, head=head)
    first = logits(model, head) if head != "speech" else logits(model, head)[0]
    wanted = float(first[small.LABELED[head][1].index(token)])
    parts = view.contributions(token)
    assert parts.logit == pytest.approx(wanted, abs=1e-5)
    assert parts.total == pytest.approx(wanted, abs=1e-4)
    whole = view.integrated_gradients(token, steps=64)
    assert whole.logit == pytest.approx(wanted, abs=1e-5) and abs(whole.missing) < 1e-3
    near = view.gradient_x_input(token)
    assert near.logit == whole.logit
    torch.testing.assert_close(
        near.values.array, model.look(TEXT).gradient_x_input(token, head=head).values.array
    )


def test_without_a_name_it_is_the_first_that_fits(model):
    view = model.look(TEXT)
    assert view.logits.shape[-1] == model.tokenizer.size
    torch.testing.assert_close(view.logits.array, logits(model, "lm"))
    reader = gf.load("zoo:reader").look("Ada was born in London.")
    assert reader.predictions() == reader.predictions(head="topic")
    assert reader.lens().words == reader.lens(head="entities").words


def test_edits_and_patches_are_felt_by_the_head_that_is_named(model):
    before = model.look(TEXT, head="mood")
    after = model.look(TEXT, head="mood", edits=[LAST_OFF])
    was, now = (view.output.head_outputs["mood"][0].log_softmax(-1) for view in (before, after))
    found = edit_effects(before, after, 0)
    assert {one.text for one in found.moved} == {"bad", "good"}
    far = float((was.exp() * (was - now)).sum())
    assert found.divergence.tolist() == pytest.approx([far], abs=1e-6)
    tags = [model.look(TEXT, head="speech", edits=edits) for edits in ([], [LAST_OFF])]
    read = lens_changes(*tags)
    assert {*read.words.values()} <= {*small.LABELED["speech"][1]}
    end = tags[1].output.head_outputs["speech"][0]
    assert read.after.best.array[-1].tolist() == end.argmax(-1).tolist()
    torch.testing.assert_close(tags[0].lens_divergence(tags[1]).array[-1], _kl(*tags, "speech"))
    torch.testing.assert_close(
        model.look(TEXT).lens_divergence(tags[1], head="names").array[-1], _kl(*tags, "names")
    )

    swept = sweep(model, TEXT, OTHER, "attn_out", token="good", head="mood")
    patch = inside.patch("blocks.1.attn_out", OTHER, positions=[(3, 3)])
    by_hand = logits(model, "mood", edits=[patch]) - logits(model, "mood")
    assert float(swept.array[1, 3]) == pytest.approx(float(by_hand[1]), abs=1e-5)
    sent = path(
        model, TEXT, OTHER, senders=[{"at": "blocks.1.z"}], receivers=["final"], head="topic"
    )
    assert {one.text for one in sent.predictions()} == {"time", "fruit", "law"}


def _kl(before: inside.View, after: inside.View, head: str) -> torch.Tensor:
    p, q = (view.output.head_outputs[head][0].log_softmax(-1) for view in (before, after))
    return (p.exp() * (p - q)).sum(-1)


def test_two_models_are_compared_by_a_head_that_both_have(model):
    other = small.several(seed=1)
    found = gf.compare(model, other, TEXT, head="mood")
    was, now = (logits(each, "mood").log_softmax(-1) for each in (model, other))
    far = float((was.exp() * (was - now)).sum())
    assert found.logit_divergence.tolist() == pytest.approx([far], abs=1e-5)
    assert {one.text for one in found.movers()} == {"bad", "good"}
    for pair in ((model, small.encoder()), (small.encoder(), model)):
        apart = gf.compare(*pair, TEXT, head="mood")
        assert apart.logit_divergence is None and apart.sides["encoder"].pattern.array.max() > 0
    assert gf.compare(model, small.encoder(), TEXT).logit_divergence is not None


def test_a_tuned_lens_is_for_one_head(model, tmp_path):
    settings = {"head": "speech", "max_steps": 20, "tokens_per_batch": 60, "folder": tmp_path}

    def stop(step, steps, loss):
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inside.tune_lens(model, TEXTS, progress=stop, **settings)
    with pytest.raises(gf.GlassformerError, match="unfinished lens"):
        inside.tune_lens(model, TEXTS, **{**settings, "head": "names"})
    tuned = inside.tune_lens(model, TEXTS, **settings)
    assert (tuned.facts.head, tuned.facts.outputs) == ("speech", 4)
    plain, better = inside.lens_divergence(model, TEXTS, tuned, head="speech").array.mean(-1)
    assert better < plain
    transfer = inside.lens_transfer(model, TEXTS, tuned).array
    assert float(transfer.diagonal().mean()) == pytest.approx(float(better), rel=1e-4)
    assert {*model.look(TEXT, head="speech").lens(tuned=tuned).words.values()} <= {
        *small.LABELED["speech"][1]
    }
    basis = inside.causal_basis(model, TEXTS, 0, count=1, tuned=tuned, head="speech")
    assert math.isfinite(float(basis.energies.array[0]))
    with inside.early_exit(model, layer=0, tuned=tuned):
        assert model.look(TEXT, head="speech").predictions()
    for ask in (
        lambda: model.look(TEXT).lens(tuned=tuned),
        lambda: model.look(TEXT, head="names").lens(tuned=tuned),
        lambda: inside.lens_divergence(model, TEXTS, tuned),
    ):
        with pytest.raises(gf.GlassformerError, match=r"read by the head 'speech'; .* read by '"):
            ask()


OUTPUTS, EACH = "lm, topic, mood, names, speech", "lm, names, speech"


@pytest.mark.parametrize(
    ("ask", "there"),
    [
        (lambda m, head: m.look(TEXT, head=head), OUTPUTS),
        (lambda m, head: m.look(TEXT).predictions(head=head), OUTPUTS),
        (lambda m, head: m.look(TEXT).contributions(head=head), OUTPUTS),
        (lambda m, head: m.look(TEXT).gradient_x_input(head=head), OUTPUTS),
        (lambda m, head: m.look(TEXT).integrated_gradients(head=head), OUTPUTS),
        (lambda m, head: sweep(m, TEXT, OTHER, head=head), OUTPUTS),
        (lambda m, head: gf.compare(m, small.several(1), TEXT, head=head), OUTPUTS),
        (lambda m, head: m.look(TEXT).lens(head=head), EACH),
        (lambda m, head: m.look(TEXT).lens_divergence(m.look(OTHER), head=head), EACH),
        (lambda m, head: inside.tune_lens(m, TEXTS, head=head), EACH),
        (lambda m, head: inside.lens_divergence(m, TEXTS, head=head), EACH),
        (lambda m, head: inside.causal_basis(m, TEXTS, 0, head=head), EACH),
        (lambda m, head: m.readout(torch.zeros(1, 1, 32), head), EACH),
        (lambda m, head: m.classify(TEXT, head=head), "topic, mood"),
        (lambda m, head: m.tag(TEXT, head=head), "names, speech"),
        (lambda m, head: gf.evaluate(m, [{"text": TEXT}], head=head), OUTPUTS),
    ],
)
def test_a_head_that_is_not_there_is_one_sentence_with_those_that_are(model, ask, there):
    said = rf"^There is no head 'mod'[\w ]*, only {there}\.$"
    with pytest.raises(gf.GlassformerError, match=said):
        ask(model, "mod")


def test_a_head_for_whole_texts_has_no_lens(model):
    with pytest.raises(gf.GlassformerError, match=f"'mood' that reads every .*, only {EACH}"):
        model.look(TEXT, head="mood").lens()
    assert "that reads every position" in model.look(TEXT, head="mood")._repr_html_()
