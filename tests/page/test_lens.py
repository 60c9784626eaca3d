"""The lens panel shows the stream after every layer, read by the model's own head."""

from __future__ import annotations

import pytest
import torch
from bare import Reference, addressed, number, settle, shares, visible, visit

TEXT = "time flies like an arrow"


def stage(model: Reference, name: str) -> torch.Tensor:
    """Logits [position, token] of a stream, by the last norm and the head, written out."""
    transformer = model.model
    with torch.no_grad():
        stream = model.seen(name)
        return (
            transformer.readout(stream[None])[0]
            if hasattr(transformer, "readout")
            else transformer.heads["lm"](transformer.decoder.norm(stream))
        )


def said(page) -> str:
    return page.locator(".unseen[aria-live=polite]").first.inner_text()


def test_a_cell_is_the_stream_read_by_the_head(decoder, folders, page):
    visit(page, decoder, panel="lens", text=TEXT, token=2, layer=1)
    model = Reference(folders["decoder"], TEXT)
    logits = stage(model, "decoder.blocks.1.resid_post")[2].softmax(-1)
    best = logits.argmax().item()
    told = said(page)
    assert "\ufffd" in model.word(best) or model.word(best) in told
    assert shares(told)[0] == pytest.approx(logits.max().item(), abs=6e-3)
    cell = page.locator("aside ol").first
    expected = logits.topk(10)
    assert model.same(cell.locator(".name").all_inner_texts(), expected.indices.tolist())
    assert shares(cell.inner_text()) == pytest.approx(expected.values.tolist(), abs=6e-3)


def test_the_last_row_is_the_prediction(decoder, folders, page):
    visit(page, decoder, panel="lens", text=TEXT, token=3, layer=2)
    model = Reference(folders["decoder"], TEXT)
    assert shares(said(page))[0] == pytest.approx(model.run()[3].softmax(-1).max().item(), abs=6e-3)


def test_layers_and_positions_by_keyboard(decoder, page):
    visit(page, decoder, panel="lens", text=TEXT, token=1, layer=0)
    page.get_by_role("application").first.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    settle(page)
    assert addressed(page, "layer=1", "token=2")
    page.get_by_role("tab", name="Attention").click()
    settle(page)
    assert addressed(page, "layer=1", "token=2", "panel=attention")


def test_the_rank_of_a_token_of_ones_own(decoder, folders, page):
    visit(
        page,
        decoder,
        panel="lens",
        text=TEXT,
        token=2,
        layer=0,
        lens_measure="rank",
        lens_token="own",
    )
    field = page.get_by_role("combobox", name="Token")
    field.fill(" a")
    first = page.locator("ul[role=listbox] li").first
    first.wait_for()
    chosen = first.inner_text()
    field.press("Enter")
    settle(page)
    model = Reference(folders["decoder"], TEXT)
    token = int(page.url.split("lens.token=")[1].split("+")[0].split("%20")[0])
    assert model.word(token) == chosen
    logits = stage(model, "decoder.blocks.0.resid_post")[2]
    rank = int((logits > logits[token]).sum()) + 1
    assert said(page).endswith(f"#{rank}")


def test_attribution_adds_up_to_the_logit(decoder, folders, page):
    visit(page, decoder, panel="lens", text=TEXT, token=4, lens_view="parts")
    model = Reference(folders["decoder"], TEXT)
    logit = model.run()[4].max().item()
    assert number(page.locator("[data-logit]").inner_text()) == pytest.approx(logit, abs=2e-3)
    page.get_by_role("radio", name="by layer").click()
    values = [number(text) for text in page.locator(".bars .number").all_inner_texts()]
    assert sum(values) == pytest.approx(logit, abs=0.01 * len(values))


def test_a_head_in_the_attribution_is_selected_by_a_click(decoder, page):
    visit(page, decoder, panel="lens", text=TEXT, token=4, lens_view="parts")
    grid = page.get_by_role("application")
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert addressed(page, "layer=1", "head=1")


def test_neurons_are_those_of_the_layer(decoder, folders, page):
    visit(page, decoder, panel="lens", text=TEXT, token=3, layer=1, lens_view="neurons")
    neurons = Reference(folders["decoder"], TEXT).seen("decoder.blocks.1.ffn_post")[3]
    best = neurons.abs().argsort(descending=True)[:5].tolist()
    listed = page.locator("ol").first
    assert listed.locator(".name").all_inner_texts()[:5] == [f"neuron {index}" for index in best]
    values = [number(text) for text in listed.locator(".number").all_inner_texts()[:5]]
    assert values == pytest.approx([neurons[index].item() for index in best], abs=6e-3, rel=2e-2)


def test_an_encoder_is_read_in_its_masked_head(encoder, folders, page):
    text = "time flies like an [MASK]"
    visit(page, encoder, panel="lens", text=text, token=5, layer=2)
    model = Reference(folders["encoder"], text)
    probabilities = model.run()[5].softmax(-1)
    assert visible(model.model.tokenizer.decode([probabilities.argmax().item()])).strip(
        "·"
    ) in said(page)
    assert shares(said(page))[0] == pytest.approx(probabilities.max().item(), abs=6e-3)


@pytest.mark.parametrize("view", ["lens", "parts", "mattered", "neurons"])
def test_labels_and_contrast(shown, page, axe, view):
    visit(page, shown, panel="lens", lens_view=view)
    assert axe(page) == []
