"""Panels that need more than a text: tuned lens, neurons over many texts, circuits."""

from __future__ import annotations

import shutil

import pytest
import torch
from bare import Reference, addressed, number, settle, shares, visit
from page_models import TEXTS
from serving import serve

import glassformer as gf
from glassformer import inside

TEXT = TEXTS[0]


@pytest.fixture(scope="module")
def folder(folders, tmp_path_factory):
    """The decoder, with a lens that was made for it."""
    made = tmp_path_factory.mktemp("trained") / "decoder"
    shutil.copytree(folders["decoder"], made)
    inside.tune_lens(
        gf.load(made), TEXTS, max_steps=30, tokens_per_batch=128, folder=made / "tuned_lens"
    )
    return made


@pytest.fixture(scope="module")
def trained(folder):
    yield from serve(folder, text=TEXT)


def test_the_lens_is_read_by_the_map_where_one_lies_with_the_model(trained, folder, page):
    visit(page, trained, panel="lens", text=TEXT, token=2, layer=0)
    by = page.get_by_role("radiogroup", name="Lens")
    assert by.get_by_role("radio", name="logit lens").get_attribute("aria-checked") == "true"
    model = Reference(folder, TEXT)
    lens = inside.TunedLens.load(folder / "tuned_lens")
    stream = model.seen("decoder.blocks.0.resid_post")
    with torch.no_grad():
        moved = stream + stream @ lens.weight[2].T + lens.bias[2]
        plain, tuned = (model.model.readout(x[None])[0, 2].softmax(-1) for x in (stream, moved))
    listed = page.locator("aside ol").first
    assert shares(listed.inner_text())[0] == pytest.approx(plain.max().item(), abs=6e-3)
    by.get_by_role("radio", name="tuned lens").click()
    settle(page)
    assert addressed(page, "lens.by=tuned")
    assert shares(listed.inner_text()) == pytest.approx(tuned.topk(10).values.tolist(), abs=6e-3)
    assert model.same(listed.locator(".name").all_inner_texts(), tuned.topk(10).indices.tolist())


def test_without_a_lens_there_is_no_choice(decoder, page):
    visit(page, decoder, panel="lens", text=TEXT)
    assert page.get_by_role("radiogroup", name="Lens").count() == 0
    model = decoder.ask("models")["start"]["model"]
    status, said = decoder.refused("lens", model=model, text=TEXT, tuned=True)
    assert status == 400 and "no tuned lens" in said


def test_neurons_over_many_texts(served, folders, page, axe):
    visit(page, served, panel="lens", layer=1, lens_view="neurons", lens_neuron=7)
    page.get_by_label("Texts, one per line").fill("\n".join(TEXTS))
    page.get_by_role("button", name="Find the largest activations").click()
    settle(page)
    name = served.ask("models")["start"]["model"]
    model = gf.load(folders[name])
    targets = None
    if name == "encoder_decoder":
        options = {"max_new_tokens": 32, "num_beams": 1, "do_sample": False}
        targets = [model.generate(text, **options).text for text in TEXTS]
    wanted = inside.max_activating(model, TEXTS, 1, 7, targets=targets)[7]
    rows = page.get_by_role("list", name="Neuron 7 over many texts").locator("li")
    assert page.get_by_text(f"{len(TEXTS)} texts read").is_visible()
    values = [number(text) for text in rows.locator(".number").all_inner_texts()]
    assert values == pytest.approx([one.value for one in wanted], rel=2e-2, abs=2e-3)
    said = f"open text {wanted[0].text + 1}"
    assert rows.first.get_by_role("button", name=said).is_visible()
    assert axe(page) == []
    rows.first.get_by_role("button", name=said).click()
    settle(page)
    assert page.get_by_label("Text", exact=True).input_value() == TEXTS[wanted[0].text]
    assert addressed(page, f"token={wanted[0].position}")


def test_too_many_texts_are_refused(decoder):
    given = {"model": decoder.ask("models")["start"]["model"], "stack": "decoder", "layer": 0}
    _, said = decoder.refused("strongest", **given, neuron=0, texts=["a"] * 3000)
    assert "inside.max_activating" in said
    _, said = decoder.refused("strongest", **given, neuron=0, texts=[" "])
    assert "no tokens in the texts" in said
    _, said = decoder.refused("strongest", **given, neuron=10**6, texts=["a"])
    assert "no neuron" in said


def test_circuits_of_the_weights(served, folders, page, axe):
    place = {"stack": "decoder", "layer": 1, "head": 2}
    visit(page, served, panel="parameters", parameters_view="circuits", **place)
    name = served.ask("models")["start"]["model"]
    model = gf.load(folders[name])
    wanted = inside.circuit(model, 1, 2)
    part = page.get_by_role("region", name="Circuits of head 2 of layer 1").first
    strengths = [number(text) for text in part.locator("td.number").all_inner_texts()]
    assert strengths == pytest.approx(wanted.strengths.tolist(), rel=1e-2)
    pairs = page.get_by_role("list", name="Highest scores").locator("li")
    scores = [number(text) for text in pairs.locator(".number").all_inner_texts()]
    top = inside.composition(model, "k").top(10)
    assert scores == pytest.approx([score for _, _, score in top], rel=1e-2)
    assert axe(page) == []
    page.get_by_role("radio", name="output of neurons").click()
    settle(page)
    strengths = [number(text) for text in page.locator("td.number").all_inner_texts()]
    wanted = inside.circuit(model, 1, None, "out").strengths.tolist()
    assert strengths == pytest.approx(wanted, rel=1e-2)


def test_heads_of_cross_attention_have_circuits(encoder_decoder, folders, page):
    visit(
        page,
        encoder_decoder,
        panel="parameters",
        parameters_view="circuits",
        stack="cross",
        layer=1,
    )
    wanted = inside.circuit(gf.load(folders["encoder_decoder"]), 1, 0, cross=True)
    shown = [number(text) for text in page.locator("td.number").all_inner_texts()]
    assert shown == pytest.approx(wanted.strengths.tolist(), rel=1e-2)


def test_a_composition_is_chosen_by_keyboard(decoder, page):
    visit(page, decoder, panel="parameters", parameters_view="circuits", layer=0, head=0)
    grid = page.get_by_role("application").first
    grid.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    settle(page)
    assert addressed(page, "layer=1", "head=1")
