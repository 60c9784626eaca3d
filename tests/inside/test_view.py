"""The view: its tensors, its cost, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
import small
import torch

import glassformer as gf
from glassformer import inside
from glassformer.core import ActivationCapture
from glassformer.core.transformer import Transformer
from glassformer.inside.attribute.linearize import norm_of
from glassformer.inside.capture.model_inputs import token_text
from glassformer.text import train

TEXT = "time flies like an arrow"


def test_arrays_have_named_axes_and_are_what_the_net_shows():
    model = small.decoder()
    view = model.look(TEXT)
    seen = ActivationCapture()
    with torch.no_grad():
        out = model(torch.tensor([model.tokenizer.encode(TEXT).ids]), tap=seen)
    one = view.attention[2, 1]
    assert one.axes == ("query", "key") and one.labels["key"] == TEXT.split()
    assert torch.equal(one.array, seen["decoder.blocks.2.pattern"][0, 1])
    assert np.array_equal(np.asarray(one), one.numpy())
    assert view.attention[:, 0].axes == ("layer", "query", "key")
    assert view.attention[1:, :, -1].shape == (2, 4, 5)
    assert view.q[0].axes == ("head", "position", "dim") and view.k[0].axes[0] == "key head"
    for name in ("q", "k", "v", "z", "scores"):
        assert torch.equal(getattr(view, name)[1].array, seen[f"decoder.blocks.1.{name}"][0])
    for name, tap in (
        ("residual", "resid_post"),
        ("residual_between", "resid_mid"),
        ("neurons", "ffn_post"),
        ("feed_forward_out", "ffn_out"),
        ("attention_out", "attn_out"),
    ):
        assert torch.equal(getattr(view, name)[-1].array, seen[f"decoder.blocks.2.{tap}"][0])
    assert torch.equal(view.logits.array, out.logits[0])
    assert torch.equal(view.tap("blocks.0.ffn_pre").array, seen["decoder.blocks.0.ffn_pre"][0])
    assert view.attention[0].mean("head").shape == (5, 5)


def test_what_is_asked_for_costs_one_pass_and_is_kept(monkeypatch):
    model = small.decoder()
    passes = []
    forward = Transformer.forward
    monkeypatch.setattr(
        Transformer, "forward", lambda *a, **k: passes.append(1) or forward(*a, **k)
    )
    view = model.look(TEXT)
    view.logits, view.predictions()
    assert len(passes) == 1
    view.attention[0, 1], view.attention[0, 2]
    assert len(passes) == 2 and set(view.cache) == {"decoder.blocks.0.pattern"}
    everything = model.look(TEXT, at="*")
    everything.attention[:], everything.residual[:], everything.lens(), everything.contributions()
    assert len(passes) == 3
    model.look(TEXT).attention[0, 1]
    assert len(passes) == 4


def test_predictions_are_the_most_probable_tokens():
    view = small.decoder().look(TEXT)
    probs = view.logits.array[-1].softmax(-1)
    best = view.predictions(top=3)
    assert [one.id for one in best] == probs.topk(3).indices.tolist()
    assert best[0].probability == pytest.approx(float(probs.max()))
    masked = small.encoder().look("time [MASK] like")
    assert masked.predictions()[0].logit == float(masked.logits.array[2].max())


def test_an_encoder_decoder_has_three_sides():
    model = small.both()
    view = model.look(TEXT, target="fruit flies")
    assert [t.text for t in view.encoder.tokens] == ["[CLS]", *TEXT.split(), "[SEP]"]
    assert [t.text for t in view.decoder.tokens] == ["[SEP]", "[CLS]", "fruit", "flies"]
    assert view.encoder.attention[0].shape == (4, 7, 7)
    assert view.decoder.attention[0].shape == (4, 4, 4)
    assert view.cross.attention[0].shape == (4, 4, 7)
    assert view.cross.attention[0].labels["key"][1] == "time"
    assert view.attention[0].shape == view.decoder.attention[0].shape
    assert len(model.look(TEXT).tokens) == 1  # the start token alone
    lens = view.lens()
    assert lens.names[-1] == "1 feed-forward" and len(lens.stages) == 5


def test_a_piece_that_is_only_a_space_is_shown_as_one():
    tokenizer = train(
        "unigram",
        texts=["time flies like an arrow"],
        vocab_size=40,
        special_tokens={"unk": "<unk>"},
    )
    id = next(id for id in range(tokenizer.size) if tokenizer.token(id) == "▁")
    assert tokenizer.decode([id]) == "" and token_text(tokenizer, id) == " "


def test_a_pair_of_texts_has_segments():
    view = small.encoder().look(("time flies", "fruit flies"))
    assert [t.segment for t in view.tokens] == [0, 0, 0, 0, 1, 1, 1]
    assert [t.special for t in view.tokens] == [True, False, False, True, False, False, True]


def test_a_changed_model_is_noticed():
    model = small.decoder()
    view = model.look(TEXT)
    view.attention[0]
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    assert view.attention[0].shape == (4, 5, 5)  # is known already
    with pytest.raises(gf.GlassformerError, match="has changed since"):
        view.attention[1]


def test_a_model_that_has_written_is_the_same_model():
    """The first generation lays weights elsewhere, and changes none."""
    model = gf.load("shakespeare")
    view = model.look("To be")
    before = [tensor.data_ptr() for tensor in model.parameters()]
    wanted = model.look("To be").attention[0].array
    model.generate("To be", max_new_tokens=2)
    assert before != [tensor.data_ptr() for tensor in model.parameters()]
    torch.testing.assert_close(view.attention[0].array, wanted)
    with torch.no_grad():
        model.decoder.blocks[1].ffn.up.weight[0, 0] += 1
    with pytest.raises(gf.GlassformerError, match="has changed since"):
        view.attention[1]


def test_numbers_are_numbers():
    view = small.decoder().look(TEXT)
    assert int(view.lens().best[0, 0, 0]) == int(view.lens().best.array[0, 0, 0])
    assert float(view.residual[0, 0, 0]) == float(view.residual[0].array[0, 0])


def test_a_model_that_chooses_among_texts_says_what_it_gives_of_one():
    view = small.encoder("MultipleChoice").look(TEXT)
    with pytest.raises(gf.GlassformerError, match=r"chooses among several texts.*view\.logits"):
        view.predictions()
    assert float(view.logits) == pytest.approx(view.contributions().total, abs=1e-4)


def test_a_model_that_says_a_number_says_no_probability():
    model = small.encoder("SequenceClassification")
    model.config["problem_type"] = "regression"
    found = model.look(TEXT).predictions()
    assert [one.logit for one in found] == sorted(model.look(TEXT).logits.tolist(), reverse=True)
    assert all(one.probability != one.probability for one in found)
    assert "%" not in found._repr_html_().split("</style>")[1]


def test_the_lens_follows_a_token_within_bounds(monkeypatch):
    from glassformer.inside.lens import lens as module

    view = small.decoder().look(TEXT)
    whole = view.lens(token="arrow", top=2)
    assert int(whole.chosen[0]) == view.model.tokenizer.id("arrow")
    monkeypatch.setattr(module, "CHUNK_LOGITS", 1)  # a row at a time
    parts = view.lens(token="arrow", top=2)
    for name in ("best", "probability", "rank", "divergence", "entropy", "norm"):
        one, other = getattr(whole, name).array, getattr(parts, name).array
        assert torch.allclose(one.float(), other.float(), atol=1e-6), name
    some = view.lens(positions=[-1])
    assert torch.equal(some.best.array[:, 0], view.lens().best.array[:, -1])
    middle = view.cache["decoder.blocks.1.resid_mid"]
    probs = view.model.readout(middle)[0, 3].softmax(-1)
    stage = whole.names.index("1 attention")
    arrow = int(whole.chosen[0])
    assert float(whole.probability.array[stage, 3]) == pytest.approx(float(probs[arrow]), rel=1e-4)
    assert int(whole.rank.array[stage, 3]) == int((probs > probs[arrow]).sum())


def test_the_lens_through_the_last_layers_leaves_out_those_between():
    """What the last layer makes of the first one's stream is a run without the second."""
    model = small.decoder()
    found = model.look(TEXT).lens(through=1, top=3)
    assert [layer for layer, _ in found.stages] == [None, 0, 0, 1, 1]
    without = model.look(TEXT, edits=inside.ablate_layer(1, model.spec)).logits.array.softmax(-1)
    likely = without.topk(3)
    assert torch.equal(found.best.array[2], likely.indices)
    assert torch.allclose(found.best_probability.array[2], likely.values, atol=1e-6)
    assert float(found.divergence.array[-1].abs().max()) <= 1e-5
    with pytest.raises(gf.GlassformerError, match="between 0 and 2 for 3 layers"):
        model.look(TEXT).lens(through=3)


def test_lenses_of_two_runs_side_by_side():
    model = small.decoder()
    view, other = model.look(TEXT), model.look(TEXT, edits=[inside.ablate_heads(1, [0])])
    p, q = (each.logits.array.double().softmax(-1) for each in (view, other))
    middle = (p + q) / 2
    half = ((p * (p / middle).log2()).sum(-1) + (q * (q / middle).log2()).sum(-1)) / 2
    wanted = {
        "kl": (p * (p / q).log()).sum(-1),
        "js": half,
        "total_variation": (p - q).abs().sum(-1) / 2,
    }
    for measure, want in wanted.items():
        found = view.lens_divergence(other, measure)
        assert found.axes == ("stage", "position") and found.shape == (7, 5)
        assert torch.allclose(found.array[-1].double(), want, atol=1e-6)
        assert float(found.array[:3].abs().max()) <= 1e-6 < float(found.array[3].max())
    with pytest.raises(gf.GlassformerError, match="the same number of tokens"):
        view.lens_divergence(model.look("fruit"))
    with pytest.raises(gf.GlassformerError, match="one of kl, js, total_variation"):
        view.lens_divergence(other, "far")


def test_neurons_are_told_of_the_layers_that_are_named():
    """In a model whose last norm is frozen a neuron counts with what it writes."""
    view = small.decoder().look(TEXT)
    found = view.contributions("arrow", neurons=[-1])
    block = view.model.decoder.blocks[2]
    _, back = norm_of(view.model.decoder.final_norm, view.residual[-1].array[-1:].double())
    id = view.model.tokenizer.id("arrow")
    direction, _ = back(view.model.heads["lm"].out.weight[id].detach().double()[None])
    want = view.neurons[2].array[-1] * (direction[0] @ block.ffn.down.weight.detach().double())
    assert found.neurons.axes == ("layer", "neuron")
    assert torch.allclose(found.neurons.array[2].double(), want.double(), atol=1e-6)
    with pytest.raises(gf.GlassformerError, match="Only the layers given"):
        _ = view.contributions().neurons


def test_indices_are_numbers_and_slices():
    view = small.decoder().look(TEXT)
    assert view.attention[np.int64(1), torch.tensor(2)].axes == ("query", "key")
    assert view.residual[0][np.int32(1)].axes == ("width",)
    for wrong in ([0, 1], "x", 1.5, None):
        with pytest.raises(gf.GlassformerError, match="an integer or a slice"):
            view.attention[wrong]
    with pytest.raises(gf.GlassformerError, match="matches 3 tensors"):
        view.tap("blocks.*.z")


def test_roll_out_is_the_product_of_mean_patterns():
    view = small.encoder().look(TEXT)
    want = torch.eye(7)
    for layer in view.attention:
        want = (0.5 * torch.eye(7) + 0.5 * layer.array.mean(0)) @ want
    assert torch.allclose(view.rollout().array, want, atol=1e-6)
    crossed = small.both().look(TEXT, target="fruit")
    shares = crossed.cross.rollout(residual=0.3).array.sum(-1)
    assert torch.allclose(shares, torch.full_like(shares, 1 - 0.3**2), atol=1e-5)


def test_a_token_is_named_as_it_is_shown():
    """With the space that a vocabulary of Llama's kind puts there itself."""
    view = gf.load("zoo:stories").look("Tim had an apple. Sue wanted it. Tim gave the apple to")
    assert view.contributions(" Sue").text == view.contributions("Sue").text == " Sue"
    with pytest.raises(gf.GlassformerError, match="not one token"):
        view.contributions(" Sueapple")


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda m: small.encoder().look(""), "text is empty"),
        (lambda m: m.look([]), "text is empty"),
        (lambda m: m.look("time " * 70), "70 tokens, 6 more than the model's 64"),
        (lambda m: m.look([5, 999]), "outside the vocabulary"),
        (lambda m: m.look((TEXT, TEXT, TEXT)), "a pair of texts, not 3"),
        (lambda m: m.look((5, 999)), "outside the vocabulary"),
        (lambda m: m.look(()), "text is empty"),
        (lambda m: m.look(TEXT, target="x"), "reads one text"),
        (
            lambda m: m.look(TEXT, at="blocks.0.patern"),
            "nearest name is 'decoder.blocks.0.pattern'",
        ),
        (lambda m: m.look(TEXT).attention[3], "There is no layer of the decoder 3"),
        (lambda m: m.look(TEXT).attention[0, 4], "no head 4: valid indices are 0 to 3"),
        (lambda m: m.look(TEXT).encoder, "has no encoder"),
        (lambda m: m.look(TEXT).cross, "no cross-attention"),
        (lambda m: m.look(TEXT).contributions("nonsense"), "not one token of the vocabulary"),
        (lambda m: m.look(TEXT).contributions(position=5), "no position 5"),
        (lambda m: m.look(TEXT).lens(head="tag"), "no head 'tag' that reads every .*, only lm"),
        (lambda m: m.look(TEXT).rollout(1.0), "at least 0 and below 1"),
    ],
)
def test_what_cannot_be_is_said(ask, says):
    with pytest.raises(gf.GlassformerError, match=says):
        ask(small.decoder())


def test_a_model_without_a_head_or_a_tokenizer_says_so():
    bare = gf.create(
        "gpt2", n_embd=32, n_layer=1, n_head=2, vocab_size=50, architectures=["GPT2Model"]
    )
    with pytest.raises(gf.GlassformerError, match="no tokenizer; give the text as a list"):
        bare.look("text")
    view = bare.look([1, 2, 3])
    assert view.attention[0].shape == (2, 3, 3)
    for ask in (view.lens, view.contributions, view.predictions, view.gradient_x_input):
        with pytest.raises(gf.GlassformerError, match=r"no (language modeling )?head"):
            ask()
    lstm = gf.create("awd-lstm", vocab_size=50, emb_sz=16, n_hid=24, n_layers=2)
    with pytest.raises(gf.GlassformerError, match="recurrent layer, which has no pattern"):
        lstm.look([1, 2, 3]).attention[0]


def test_a_classifier_names_labels():
    view = small.encoder("SequenceClassification").look(TEXT)
    assert view.logits.axes == ("label",)
    assert {one.text for one in view.predictions()} == {"bad", "good", "odd"}
    found = view.contributions("good", versus="bad")
    assert found.text == "good" and found.versus == "bad"
    assert abs(found.total - found.logit) < 1e-4
    assert inside.Edit.of({"kind": "scale", "at": "embed", "factor": 0.5}).json()["factor"] == 0.5
