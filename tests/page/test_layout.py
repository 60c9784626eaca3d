"""What is in sight: pictures, selectors and cards on screens of different sizes."""

from __future__ import annotations

import page_models
import pytest
from bare import RECORD, settle, until, visit
from quick import quick
from serving import serve

TEXT = "time flies like an arrow"


def test_a_second_text_is_seen_whole(decoder, page):
    visit(page, decoder, panel="edit", text=" ".join([TEXT] * 5))
    field = page.get_by_label("Second text")
    whole, seen = field.evaluate("field => [field.scrollHeight, field.clientHeight]")
    assert whole <= seen


def test_the_own_row_of_a_query_is_in_sight(decoder, page):
    text = " ".join([TEXT] * 6)
    visit(page, decoder, panel="attention", attention_view="neuron", text=text)
    top, height, whole = page.get_by_role("application").evaluate(
        "sheet => [sheet.scrollTop, sheet.clientHeight, sheet.scrollHeight]"
    )
    assert whole > height and top == pytest.approx(whole - height, abs=1)  # it is the last one


def test_numbers_of_heads_stay_above_the_layers(tmp_path, page):
    page_models.decoder(n_layer=6).save(tmp_path / "deep")
    for served in serve(tmp_path / "deep", text=TEXT):
        visit(page, served, panel="positions", text=TEXT)
        page.evaluate(RECORD)
        page.get_by_role("tab", name="Attention").click()
        page.get_by_role("radio", name="Model", exact=True).click()
        page.get_by_role("radio", name="5", exact=True).first.click()
        settle(page)
        assert page.get_by_role("application").evaluate("sheet => sheet.scrollTop") > 0
        written = [line.split(" at ") for line in page.evaluate("window.written")[-4:]]
        assert [name for name, _ in written] == list("0123")
        assert all(0 < int(place.split(", ")[1]) < 26 for _, place in written)


def test_all_tokens_of_the_steps_are_in_sight(decoder, page):
    visit(page, decoder, panel="next", next_view="steps", text=" ".join([TEXT] * 2))
    wide, whole, left = page.locator(".strip [role=application]").evaluate(
        "sheet => [sheet.clientWidth, sheet.scrollWidth, sheet.scrollLeft]"
    )
    assert whole <= wide + 1 and left == 0


def test_the_selected_token_is_in_sight_below_the_text(decoder, page):
    page.set_viewport_size({"width": 500, "height": 1000})
    visit(page, decoder, panel="positions", text=" ".join([TEXT] * 8))
    where = """() => {
        const chosen = document.querySelector("form [aria-selected=true]").getBoundingClientRect();
        const box = document.querySelector("form .tokens").getBoundingClientRect();
        return [chosen.top - box.top, box.bottom - chosen.bottom];
    }"""
    assert min(page.evaluate(where)) >= 0
    page.locator("form [role=option]").first.click()
    assert min(page.evaluate(where)) >= 0


def test_the_tour_covers_nothing_that_it_speaks_of(decoder, page):
    for width, height in ((1280, 720), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(reduced_motion="reduce")
        page.goto(decoder.address)
        card = page.get_by_role("dialog", name="Guided tour")
        card.get_by_role("button", name="Take the tour").click()
        for _ in range(6):
            card.get_by_role("button", name="Next").click()
            settle(page)
            until(
                page,
                "() => document.querySelector('.frame')?.getBoundingClientRect().top + 6 >= "
                "document.querySelector('.tour').getBoundingClientRect().bottom",
            )
        assert page.get_by_role("group", name="Selection").is_visible()
        card.get_by_role("button", name="End").click()
        page.evaluate("localStorage.clear()")


def test_selectors_stay_and_wide_screens_are_used(decoder, page):
    page.set_viewport_size({"width": 2300, "height": 900})
    visit(page, decoder, panel="next", text=" ".join([TEXT] * 6))
    assert page.locator("main").evaluate("main => main.clientWidth") > 2200
    page.set_viewport_size({"width": 1280, "height": 720})
    visit(page, decoder, panel="lens", text=TEXT)
    page.evaluate("scrollTo(0, 400)")
    assert page.get_by_role("tablist").bounding_box()["y"] >= 0
    page.get_by_role("button", name="Full screen").click()
    until(page, "document.fullscreenElement?.id === 'panel'")
    page.get_by_role("application").first.hover()
    page.locator("#panel [role=tooltip]").wait_for()
    page.evaluate("document.exitFullscreen()")
    until(page, "document.fullscreenElement === null")


# How much of a picture's card is used by it.
USED = """() => {
    const card = document.querySelector("#panel :is(.card.view, .picture, .tree)");
    const marks = card.querySelectorAll(".sheet > div, figure, svg[role=tree]");
    const right = Math.max(...[...marks].map((one) => one.getBoundingClientRect().right));
    const { left, width } = card.getBoundingClientRect();
    return (right - left) / width;
}"""


def test_pictures_use_a_wide_screen(decoder, page):
    page.set_viewport_size({"width": 1920, "height": 1080})
    text = " ".join([TEXT] * 3)
    views = (
        {"panel": "attention", "attention_view": "model"},
        {"panel": "attention", "attention_view": "matrix"},
        {"panel": "walk", "walk_at": "dot"},
        {"panel": "next", "next_view": "beams"},
    )
    for view in views:
        visit(page, decoder, text=text, **view)
        assert page.evaluate(USED) > 0.75, view


# Where the first card of a panel begins, or what stands without one.
FIRST = """() => Math.min(...[...document.querySelectorAll("#panel :is(.card, .pictures, table)")]
    .map((one) => one.getBoundingClientRect().top))"""


VIEWS = {
    "attention": ["model", "neuron", "matrix"],
    "next": ["beams", "steps"],
    "lens": ["parts", "mattered", "neurons"],
    "parameters": ["circuits"],
}
PANELS = ["walk", "attention", "next", "lens", "positions", "edit", "compare", "parameters"]


@pytest.mark.parametrize("kind", quick(["decoder", "encoder_decoder"], "encoder_decoder"))
def test_less_than_half_of_a_laptops_screen_is_header(kind, request, page):
    """Also of a long text, of a text and its translation, and in every view."""
    served = request.getfixturevalue(kind)
    page.set_viewport_size({"width": 1280, "height": 720})
    text = " ".join([TEXT] * 4)
    views = {panel: [{}] for panel in PANELS}
    for panel, names in VIEWS.items():
        views[panel] += [{f"{panel}_view": name} for name in names]
    for panel in PANELS:
        for view in views[panel]:
            visit(page, served, panel=panel, text=text, target="a fruit", **view)
            assert page.locator("form").bounding_box()["y"] < page.evaluate(FIRST)
            assert page.evaluate(FIRST) < 360, (panel, view)
