"""Links and the browser's history: what an address shows, and what Back undoes."""

from __future__ import annotations

import re

import pytest
from bare import addressed, settle, visit
from playwright.sync_api import expect
from quick import quick

TEXT = "time flies like an arrow"


def test_the_page_opens_where_it_tells_most(encoder_decoder, decoder, page):
    for served, texts in ((encoder_decoder, {"target": "a fruit"}), (decoder, {})):
        model = served.ask("models")["models"][0]["id"]
        want = served.ask("highlight", model=model, text=TEXT, **texts)
        page.goto(f"{served.address}?panel=attention&text={TEXT}&target={texts.get('target', '')}")
        settle(page)
        selection = page.get_by_role("group", name="Selection")
        for name in ("layer", "head"):
            group = selection.get_by_role("radiogroup", name=name.capitalize())
            assert group.locator("[aria-checked=true]").inner_text() == str(want[name])
        assert selection.locator(".chosen .number").inner_text() == str(want["position"])


# What a link may have lost or a hand mistyped.
MISTYPED = [
    {"panel": "nothing"},
    {"panel": "walk", "walk_at": "nothing", "walk_column": "x"},
    {"panel": "walk", "walk_at": "dot", "walk_column": "999", "walk_row": "x"},
    {"panel": "attention", "attention_view": "x", "attention_least": "x", "layer": 99, "head": 99},
    {"panel": "next", "next_options": "x", "token": 999},
    {"panel": "next", "next_view": "beams", "next_beams": "x", "next_length": -1},
    {"panel": "next", "next_view": "steps", "next_step": 99, "next_sample": 1, "next_seed": "x"},
    {"panel": "lens", "lens_view": "neurons", "lens_neuron": "x"},
    {"panel": "lens", "lens_view": "neurons", "lens_neuron": "-5"},
    {"panel": "edit", "edit_list": "x"},
    {"panel": "compare", "compare_a": "x"},
]


@pytest.mark.parametrize("address", quick(MISTYPED, *MISTYPED[3::4]))
def test_a_mistyped_address_shows_the_usual(decoder, page, address):
    visit(page, decoder, text=TEXT, **address)
    assert page.get_by_role("alert").count() == 0
    told = page.locator("#panel").inner_text()
    assert "NaN" not in told and "undefined" not in told


def test_back_undoes_a_step_of_the_walk_and_a_view(decoder, page):
    visit(page, decoder, panel="walk", text=TEXT)
    for step in ("tokens", "embed_token"):
        page.locator(".moves").get_by_role("button", name="Next").click()
        assert addressed(page, f"walk.at={step}")
    page.get_by_role("tab", name="Attention").click()
    assert addressed(page, "panel=attention")
    page.get_by_role("radio", name="matrix").click()
    assert addressed(page, "attention.view=matrix")
    page.go_back()
    expect(page).not_to_have_url(re.compile("attention.view=matrix"))
    assert addressed(page, "panel=attention")
    page.go_back()
    assert addressed(page, "panel=walk", "walk.at=embed_token")
    page.go_back()
    assert addressed(page, "panel=walk", "walk.at=tokens")
    settle(page)
    expect(page.locator(".words h2")).to_have_text("Tokens")


def test_back_undoes_a_step_of_writing(decoder, page):
    visit(page, decoder, panel="next", next_view="steps", text=TEXT)
    for step in (1, 2):
        page.get_by_role("button", name="One step forward").click()
        assert addressed(page, f"next.step={step}")
    page.go_back()
    expect(page.locator("output")).to_have_text("2 / 16")
    page.go_back()
    expect(page.locator("output")).to_have_text("1 / 16")
    assert "panel=next" in page.url
