"""All panels on a narrow screen, in Chinese and with the dark theme."""

from __future__ import annotations

from itertools import pairwise

import pytest
from bare import until, visit

PANELS = ("walk", "attention", "next", "lens", "positions", "edit", "compare", "parameters")
CUT = """() => {
  const moves = (one) => /auto|scroll/.test(getComputedStyle(one).overflowX);
  const scrolls = (one) => one && (moves(one) || scrolls(one.parentElement));
  const wide = document.documentElement.clientWidth;
  return [...document.querySelectorAll("#panel *")]
    .filter((one) => one.getBoundingClientRect().right > wide + 1 && !scrolls(one.parentElement))
    .map((one) => one.outerHTML.slice(0, 120));
}"""
HIDDEN = "(one) => one.scrollWidth - one.clientWidth"


@pytest.fixture
def narrow(page):
    page.set_viewport_size({"width": 420, "height": 900})
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    with page.add_init_script("localStorage.setItem('glassformer.tour', 'seen')"):
        yield page


@pytest.mark.parametrize("panel", PANELS)
def test_nothing_is_cut_off(panel, shown, narrow, axe):
    visit(narrow, shown, panel=panel, lang="zh")
    assert narrow.evaluate("document.documentElement.scrollWidth") == 420
    assert narrow.evaluate(CUT) == []
    for words in narrow.locator("#panel .row.words").all():
        assert words.evaluate(HIDDEN) == 0
    assert axe(narrow) == []


def test_the_table_of_parameters_folds(shown, narrow):
    visit(narrow, shown, panel="parameters")
    narrow.get_by_role("button", name="Open all").click()
    assert narrow.locator(".table").evaluate(HIDDEN) == 0
    model = shown.ask("models")["start"]["model"]
    parts = shown.ask("parameters", model=model)["parts"]
    shape = next(part["shape"] for part in parts if part["shape"])
    told = narrow.locator("tbody .narrow:visible").first.inner_text()
    assert told == " × ".join(f"{size:,}" for size in shape)


def test_shapes_of_a_block_do_not_touch(shown, narrow):
    visit(narrow, shown, panel="walk", walk_at="block", lang="zh")
    for part in narrow.locator("section[data-tour]").all():
        sides = "all => all.map(one => one.getBoundingClientRect()).map(at => [at.left, at.right])"
        boxes = sorted(part.locator(".caption .number").evaluate_all(sides))
        assert len(boxes) > 2
        for left, right in pairwise(boxes):
            assert left[1] < right[0]


def test_the_list_of_steps_follows(decoder, narrow):
    """The step that is told stands in the part of the list that is in sight."""
    visit(narrow, decoder, panel="walk", walk_at="logits")
    steps = narrow.get_by_role("navigation", name="Steps", exact=True)
    in_sight = """(steps) => {
        const here = steps.querySelector("[aria-current=step]").getBoundingClientRect();
        const all = steps.getBoundingClientRect();
        return all.left <= here.left && here.right <= all.right
            && all.top <= here.top && here.bottom <= all.bottom;
    }"""
    until(narrow, in_sight, steps.element_handle())
