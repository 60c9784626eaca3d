"""The page in a browser: every panel for every kind of model, and error states."""

from __future__ import annotations

import json

import pytest
from bare import CHANGED, addressed, settle, visit

PANELS = ("walk", "attention", "next", "lens", "positions", "edit", "compare", "parameters")


@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_of_every_kind(shown, page, axe, panel):
    """Nothing on the console, no other host asked (both: the fixture), nothing that axe finds in
    light or in dark, and nothing that is wider than a narrow window."""
    page.emulate_media(reduced_motion="reduce")
    visit(page, shown, panel=panel)
    assert page.get_by_role("tab", selected=True).get_attribute("id") == f"tab-{panel}"
    assert axe(page) == []
    page.emulate_media(color_scheme="dark")
    page.evaluate(CHANGED)
    assert axe(page) == []
    page.set_viewport_size({"width": 420, "height": 900})
    page.evaluate(CHANGED)
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_tabs_by_keyboard_alone(decoder, page):
    visit(page, decoder, panel="walk", layer=1, head=2, token=1)
    page.get_by_role("tab", selected=True).focus()
    for panel in PANELS[1:4]:
        page.keyboard.press("ArrowRight")
        settle(page)
        assert addressed(page, f"panel={panel}")
        assert addressed(page, "layer=1", "head=2", "token=1")


@pytest.mark.parametrize("text", ["time flies " * 400])
def test_a_text_that_is_too_long_is_said(decoder, page, text):
    """The page goes on: the next text is read."""
    visit(page, decoder, panel="attention", text=text)
    assert "more than the model's" in page.locator("body").inner_text()
    visit(page, decoder, panel="attention", text="time flies")
    assert "more than the model's" not in page.locator("body").inner_text()
    noted = page.log.errors  # a browser itself notes every status of 400, sooner or later
    noted[:] = [line for line in noted if "status of 400" not in line]


def test_two_tabs(decoder, browser):
    """Both show the same numbers, asked for at once."""
    pages = [browser.new_page() for _ in range(2)]
    for page in pages:
        visit(page, decoder, panel="next", text="fruit flies")
    shown = []
    for page in pages:
        shown.append(page.locator("main").inner_text())
        page.close()
    assert shown[0] == shown[1]


def test_another_page_cannot_ask(decoder, encoder, browser):
    """A page of another origin, in the same browser, gets no answer."""
    page = browser.new_page()
    page.goto(encoder.address)
    asked = json.dumps(f"{decoder.address}api/models")
    told = page.evaluate(
        f"fetch({asked}, {{method: 'POST', body: '{{}}', mode: 'no-cors'}})"
        ".then((answer) => answer.type, () => 'refused')"
    )
    page.close()
    assert told == "refused"
