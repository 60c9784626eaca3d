"""HTML output is one self-contained file that opens without an error."""

from __future__ import annotations

import re

import pytest
import small
import torch

import glassformer as gf
from glassformer.inside.explain.attention_neurons import attention_neurons
from glassformer.inside.explain.head_types import head_types

TEXT = "time flies like an arrow"
FETCHES = r"""(src|href|action)\s*=\s*(?!["']?data:)|@import|url\(|fetch\("""


def things():
    view = small.decoder().look(TEXT)
    both = small.both().look(TEXT, "fruit flies")
    return {
        "view": view,
        "both": both,
        "bare": small.encoder("SequenceClassification").look(TEXT),
        "attention": both.cross.attention,
        "head": view.attention[1, 2],
        "layers": view.residual,
        "number": view.residual[0, 0, 0],
        "row": view.residual[0, 0],
        "rollout": view.rollout(),
        "side": both.cross,
        "predictions": view.predictions(),
        "kinds": head_types(both.encoder),
        "neurons": attention_neurons(view, 1, 2, 3),
        "positions": gf.inside.positions.positions(both.model, 6),
        "picture": gf.inside.positions.positions(view.model, 6)[0],
        "parameters": gf.inside.parameters.parameters(view.model),
        "lens": view.lens(),
        "contributions": both.contributions(),
        "difference": view.contributions("arrow", versus="banana"),
        "tuned": view.lens(tuned=gf.inside.tune_lens(view.model, [TEXT], max_steps=1)),
        "strongest": gf.inside.max_activating(view.model, [TEXT, "fruit flies"], 1, [3, 5]),
        "circuit": gf.inside.circuit(view.model, 1, 2),
        "neuron directions": gf.inside.circuit(both.model, 1, None, "out"),
        "composition": gf.inside.composition(view.model, "v"),
        "basis": gf.inside.causal_basis(view.model, [TEXT], 1, 2),
        "saliency": both.integrated_gradients(steps=2),
        "compare": gf.compare(small.decoder(0), small.decoder(1), TEXT),
        "recurrent": gf.create("awd-lstm", vocab_size=9, emb_sz=8, n_hid=8, n_layers=1).look(
            [1, 2]
        ),
    }


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, thing in things().items():
        thing.save_html(folder / f"{name}.html")
        assert thing._repr_html_() in (folder / f"{name}.html").read_text("utf-8")
    return folder


def test_nothing_is_fetched(pages):
    for path in pages.iterdir():
        text = path.read_text("utf-8")
        assert not re.search(FETCHES, text) and "http://" not in text and "https://" not in text
        assert text.startswith("<!DOCTYPE html>")


def test_the_same_bytes_each_time(pages, tmp_path):
    small.decoder().look(TEXT).save_html(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (pages / "view.html").read_bytes()


def test_text_is_never_markup():
    model = small.decoder()
    for show in ("<b>", "</script><script>"):
        words = gf.inside.NamedTensor(
            torch.ones(1, 1), ("query", "key"), {"query": [show], "key": [show]}
        )
        assert show not in words._repr_html_()
    view = model.look(TEXT)
    view.cache["decoder.blocks.0.pattern"] = view.attention[0].array[None]
    tokens = tuple(
        gf.inside.capture.model_inputs.InputToken(1, "</script><b>") for _ in view.tokens
    )
    view.model_inputs = gf.inside.capture.model_inputs.ModelInputs(
        view.model_inputs.inputs, (), tokens
    )
    assert "</script><b>" not in view._repr_html_()


def test_a_long_text_is_made_smaller():
    model = gf.create("gpt2", n_embd=16, n_layer=4, n_head=4, vocab_size=50, n_positions=700)
    view = model.look([i % 50 for i in range(600)])
    text = view.attention._repr_html_()
    assert len(text) < 6_000_000 and "largest of its neighbors" in text


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(gf.GlassformerError, match="cannot be written"):
        small.decoder().look(TEXT).save_html(tmp_path / "no" / "view.html")


def test_a_browser_opens_every_page_without_an_error(pages, browser):
    page = browser.new_page()
    troubles, asked = [], []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    for path in sorted(pages.iterdir()):
        page.goto(path.as_uri())
    assert not troubles
    assert all(url.startswith(("file:", "data:")) for url in asked)
    page.goto((pages / "view.html").as_uri())
    page.click("button[aria-label='layer 2, head 3']")
    assert page.eval_on_selector(".layer", "e => e.value") == "2"
    assert page.eval_on_selector(".head", "e => e.value") == "3"
    page.click("svg text >> nth=4")
    assert page.locator("svg line").count() <= 5
    page.close()
