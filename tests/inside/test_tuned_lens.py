"""The tuned lens: equal to a plain training loop, and closer to the output than the logit lens."""

from __future__ import annotations

import json

import pytest
import small
import torch
from family_models import FAMILIES, case_of, text_of
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from glassformer import GlassformerError, inside
from glassformer.inside.capture.corpus import batches, captured, pieces
from glassformer.inside.lens.stages import language_head, stage_names
from glassformer.inside.lens.tuned_lens import BEGUN, CONFIG, load_lens_of

WORDS = small.WORDS.split()
LEARN = [" ".join(WORDS[i : i + 9 - i % 4]) for i in range(12)]
HELD = [" ".join(reversed(WORDS[i : i + 8])) for i in range(0, 12, 3)]
SETTINGS = {"max_steps": 60, "tokens_per_batch": 64, "learning_rate": 0.01}


def made(kind: str):
    return {"decoder": small.decoder, "encoder": small.encoder, "both": small.both}[kind]()


def given(kind: str, texts):
    return {"targets": [text.split()[-1] for text in texts]} if kind == "both" else {}


def test_maps_are_those_of_a_plain_loop():
    """One linear layer a stage, added to the stream, by KL to what is said in the end."""
    model = small.decoder()
    lens = inside.tune_lens(
        model, LEARN[:3], max_steps=4, tokens_per_batch=1000, learning_rate=0.02
    )
    names = stage_names(model.spec)
    views = [model.look(text, at=names) for text in LEARN[:3]]
    final = torch.cat([view.logits.array for view in views]).log_softmax(-1).detach()
    layers = nn.ModuleList(nn.Linear(32, 32) for _ in names[:-1])
    for layer in layers:
        nn.init.zeros_(layer.weight), nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.02)
    head, norm = model.heads["lm"].out.weight, model.decoder.final_norm
    for step in range(4):
        for group in optimizer.param_groups:
            group["lr"] = 0.02 * (4 - step) / 4
        loss = torch.zeros(())
        for name, layer in zip(names[:-1], layers, strict=True):
            x = torch.cat([view.tap(name).array for view in views]).detach()
            logits = norm(x + layer(x)) @ head.T
            loss = loss + (final.exp() * (final - logits.log_softmax(-1))).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for at, layer in enumerate(layers):
        torch.testing.assert_close(lens.weight[at], layer.weight, atol=2e-5, rtol=1e-3)
        torch.testing.assert_close(lens.bias[at], layer.bias, atol=2e-5, rtol=1e-3)
    assert all(tensor.grad is None for tensor in list(model.parameters())[1:2])


@pytest.mark.parametrize("kind", ["decoder", "encoder", "both"])
def test_it_is_nearer_to_the_end_than_the_logit_lens_on_texts_it_has_not_seen(kind):
    model = made(kind)
    told = []
    lens = inside.tune_lens(
        model, LEARN, **given(kind, LEARN), **SETTINGS, progress=lambda *each: told.append(each)
    )
    plain, tuned = inside.lens_divergence(model, HELD, lens, **given(kind, HELD)).array
    assert tuned.mean() < 0.7 * plain.mean() and (tuned < plain).sum() >= len(plain) - 1
    assert [step for step, _, _ in told] == list(range(1, 61)) and told[-1][2] < told[0][2]


def test_a_view_reads_through_it_and_says_so(tmp_path):
    model = small.decoder()
    inside.tune_lens(model, LEARN, folder=tmp_path / "tuned_lens", **SETTINGS)
    lens, view = load_lens_of(tmp_path), model.look(HELD[0])
    found, plain = view.lens(tuned=lens), view.lens()
    stream = view.residual[0].array
    by_hand = stream + stream @ lens.weight[2].T + lens.bias[2]
    logits = model.readout(by_hand[None])[0]
    assert found.names[2] == "0 feed-forward"
    torch.testing.assert_close(
        found.best_probability.array[2, :, 0], logits.softmax(-1).amax(-1), atol=1e-5, rtol=1e-4
    )
    assert torch.equal(found.best.array[-1], plain.best.array[-1])
    assert found.divergence.array.mean() < plain.divergence.array.mean()
    assert "Tuned lens" in found._repr_html_() and "Logit lens" in plain._repr_html_()
    other = model.look(HELD[1])
    apart = view.lens_divergence(other, tuned=lens).array
    assert torch.equal(apart[-1], view.lens_divergence(other).array[-1])
    assert not torch.allclose(apart[0], view.lens_divergence(other).array[0])


def test_maps_may_read_other_stages():
    """On the diagonal each reads its own; elsewhere a plain product says the same."""
    model = small.decoder()
    lens = inside.tune_lens(model, LEARN, max_steps=10, tokens_per_batch=64)
    found = inside.lens_transfer(model, HELD[:1], lens)
    own = inside.lens_divergence(model, HELD[:1], lens).array[1]
    torch.testing.assert_close(found.array.diagonal(), own)
    view = model.look(HELD[0])
    x = view.residual[1].array
    end = view.logits.array.log_softmax(-1)
    here = model.readout((x + x @ lens.weight[0].T + lens.bias[0])[None])[0].log_softmax(-1)
    wanted = (end.exp() * (end - here)).sum(-1).mean()
    assert found.axes == ("map", "stage") and found.labels["stage"][4] == "1 feed-forward"
    assert float(found.array[0, 4]) == pytest.approx(float(wanted), rel=1e-4)


def test_what_was_stopped_goes_on_to_the_same_lens(tmp_path):
    model = small.encoder()
    whole = inside.tune_lens(model, LEARN, **SETTINGS)

    def stop(step, steps, loss):
        if step == 23:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inside.tune_lens(model, LEARN, folder=tmp_path, progress=stop, **SETTINGS)
    assert not (tmp_path / CONFIG).exists() and (tmp_path / BEGUN).exists()
    with pytest.raises(GlassformerError, match="unfinished lens"):
        inside.tune_lens(model, LEARN[:5], folder=tmp_path, **SETTINGS)
    steps = []
    again = inside.tune_lens(
        model, LEARN, folder=tmp_path, progress=lambda *each: steps.append(each[0]), **SETTINGS
    )
    assert steps[0] == 24 and torch.equal(again.weight, whole.weight)
    assert again.facts == whole.facts and not (tmp_path / BEGUN).exists()
    read = inside.TunedLens.load(tmp_path)
    assert read.facts == whole.facts and torch.equal(read.bias, whole.bias)


def test_one_that_was_stopped_in_its_first_step_begins_anew(tmp_path, monkeypatch):
    model, few = small.decoder(), {"max_steps": 3, "tokens_per_batch": 20}
    whole = inside.tune_lens(model, LEARN, **few)

    def stop(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("glassformer.inside.lens.train_tuned_lens.captured", stop)
        with pytest.raises(KeyboardInterrupt):
            inside.tune_lens(model, LEARN, folder=tmp_path, **few)
    assert torch.equal(inside.tune_lens(model, LEARN, folder=tmp_path, **few).weight, whole.weight)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, told: tensors.pop("0.step"),
        lambda tensors, told: tensors.update(recent=torch.zeros(5)),
        lambda tensors, told: tensors.update(weight=tensors["weight"].half()),
        lambda tensors, told: tensors.update(bias=torch.zeros(())),
        lambda tensors, told: tensors["0.step"].fill_(-1e-34),
        lambda tensors, told: tensors["weight"].fill_(float("nan")),
        lambda tensors, told: told.pop("done"),
        lambda tensors, told: told.update(done="a"),
        lambda tensors, told: told.update(done=-4),
        lambda tensors, told: told.update(done=10**9),
    ],
)
def test_a_damaged_state_is_refused(tmp_path, change):
    model, few = small.decoder(), {"max_steps": 3, "tokens_per_batch": 20}

    def stop(*args):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inside.tune_lens(model, LEARN, folder=tmp_path, progress=stop, **few)
    path = tmp_path / BEGUN
    with safe_open(path, "pt") as file:
        told = json.loads(file.metadata()["told"])
    tensors = load_file(path)
    change(tensors, told)
    save_file(tensors, path, {"told": json.dumps(told)})
    with pytest.raises(
        GlassformerError, match=r"unfinished lens of another|is not the state of a lens|is damaged"
    ):
        inside.tune_lens(model, LEARN, folder=tmp_path, **few)


def test_another_seed_is_another_order():
    model, few = small.decoder(), {"max_steps": 3, "tokens_per_batch": 20}
    one, same, other = (inside.tune_lens(model, LEARN, seed=n, **few) for n in (1, 1, 2))
    assert torch.equal(one.weight, same.weight) and not torch.equal(one.weight, other.weight)


@pytest.mark.parametrize("name", FAMILIES, ids=str)
def test_every_family_with_a_lens_can_be_tuned(name):
    """Texts of several lengths are read together as they are read alone."""
    case = case_of(name)
    try:
        language_head(case.model)
    except GlassformerError:
        return
    both = [text_of(case, seed=seed, length=length) for seed, length in ((0, 9), (1, 6))]
    texts, targets = zip(*both, strict=True)
    given = None if targets[0] is None else targets
    names = stage_names(case.spec)
    found = [
        captured(case.model, batch, names)
        for batch in batches(pieces(case.model, texts, given), 100)
    ]
    for stage in names:
        rows = torch.cat([each[stage] for each in found])
        alone = [case.model.look(*one).tap(stage).array for one in both]
        torch.testing.assert_close(rows, torch.cat(alone), atol=2e-4, rtol=1e-3)
    before = inside.lens_divergence(case.model, texts, targets=given).array.mean()
    lens = inside.tune_lens(
        case.model, texts, targets=given, max_steps=8, tokens_per_batch=100, learning_rate=0.003
    )
    assert inside.lens_divergence(case.model, texts, lens, targets=given).array[1].mean() < before


def test_long_texts_become_windows_with_what_stands_around_a_text():
    model = small.encoder()
    long = " ".join(WORDS[i % len(WORDS)] for i in range(50))
    cut = list(pieces(model, [long, "  ", "time flies"], max_length=20))
    assert [(one.number, one.start) for one in cut] == [(0, 0), (0, 18), (0, 36), (2, 0)]
    ids = [id for one in cut[:3] for id in one.ids["encoder"][1:-1]]
    assert ids == model.tokenizer.ids(long)
    assert all(one.ids["encoder"][0] == 2 and one.ids["encoder"][-1] == 3 for one in cut)


def test_bad_input_is_one_clear_sentence(tmp_path):
    model = small.decoder()
    for wrong, said in (
        (lambda: inside.tune_lens(model, "one text"), "brackets"),
        (lambda: inside.tune_lens(model, [" "]), "There are no tokens"),
        (lambda: inside.tune_lens(model, LEARN, max_steps=0), "at least 1"),
        (lambda: inside.tune_lens(small.both(), LEARN), "targets"),
        (lambda: inside.tune_lens(small.both(), LEARN, targets=["a"]), "has no target"),
        (lambda: inside.tune_lens(small.encoder("SequenceClassification"), LEARN), "no lens"),
        (lambda: inside.TunedLens.load(tmp_path), "no tuned lens"),
    ):
        with pytest.raises(GlassformerError, match=said):
            wrong()
    lens = inside.tune_lens(model, LEARN, max_steps=1)
    with pytest.raises(GlassformerError, match="is for GPT2LMHeadModel"):
        small.encoder().look("time flies").lens(tuned=lens)
    with pytest.raises(GlassformerError, match="leave out"):
        model.look("time flies").lens(tuned=lens, through=1)
    lens.save(tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    for text, said in (
        ("{", "does not describe"),
        (json.dumps({**config, "width": 9}), "does not contain"),
    ):
        (tmp_path / CONFIG).write_text(text)
        with pytest.raises(GlassformerError, match=said):
            inside.TunedLens.load(tmp_path)
