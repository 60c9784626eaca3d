"""While a response is computed, a panel shows the previous one with its own captions, dimmed.

The tests delay every response of the server: no caption may change before its numbers do.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from bare import RECORD, settle, visit

TEXT, OTHER = "time flies like an arrow", "fruit flies like a banana"

PANELS: dict[str, dict[str, str]] = {
    "the model": {"panel": "walk"},
    "a block": {"panel": "walk", "walk.at": "block"},
    "a step": {"panel": "walk", "walk.at": "dot", "walk.column": "1"},
    "a vector": {"panel": "walk", "walk.at": "residual", "walk.column": "1"},
    "the blocks": {"panel": "walk", "walk.at": "stack"},
    "the probabilities": {"panel": "walk", "walk.at": "probabilities"},
    "lines": {"panel": "attention"},
    "thumbnails": {"panel": "attention", "attention.view": "model"},
    "query and keys": {"panel": "attention", "attention.view": "neuron"},
    "a matrix": {"panel": "attention", "attention.view": "matrix"},
    "candidates": {"panel": "next"},
    "beams": {"panel": "next", "next.view": "beams"},
    "steps": {"panel": "next", "next.view": "steps"},
    "the lens": {"panel": "lens"},
    "contributions": {"panel": "lens", "lens.view": "parts"},
    "what mattered": {"panel": "lens", "lens.view": "mattered"},
    "neurons": {"panel": "lens", "lens.view": "neurons"},
    "positions": {"panel": "positions"},
    "edits": {"panel": "edit", "edit.from": OTHER},
    "two texts": {"panel": "compare"},
    "circuits": {"panel": "parameters", "parameters.view": "circuits"},
}
OFF = {"kind": "scale", "at": "decoder.blocks.1.z", "heads": [2], "factor": 0}
# What else is asked for in a panel, by its own tools.
OPTIONS: dict[str, dict[str, Any]] = {
    "thumbnails": {"attention.measure": "previous"},
    "candidates": {"next.options": "0.5_3_1_0"},
    "beams": {"next.beams": 4},
    "steps": {"next.sample": 1},
    "the lens": {"lens.token": "5 a"},
    "contributions": {"lens.of": "5 a"},
    "what mattered": {"lens.mattered": "occlusion"},
    "positions": {"positions.length": 64},
    "edits": {"edit.list": json.dumps([OFF]), "edit.place": "z"},
    "two texts": {"compare.text": "the animal"},
    "circuits": {"parameters.of": "qk", "parameters.by": "q"},
}
CHANGES = {
    "token": {"token": 1},
    "layer": {"layer": 2, "head": 3},
    "text": {"text": "i am a student"},
}

# Their answers are of all tokens: another one is shown without asking again.
OF_ALL_TOKENS = {"a block", "lines", "thumbnails", "a matrix", "beams", "steps", "the lens"}
OF_ALL_TOKENS |= {"positions"}

# And theirs are of all layers and heads.
OF_ALL_LAYERS = {"thumbnails", "the lens"}

# These are of a model alone; the text and the token stand in their first sentence.
OF_NO_TEXT = {"positions", "circuits"}

# What is said in a panel, without controls, which tell what is asked for.
SAID = """() => {
    const panel = document.querySelector("#panel").cloneNode(true);
    const controls = "[data-live], [role=radiogroup], [role=status], [aria-live], .tools, output"
        + ", select, option";
    for (const one of panel.querySelectorAll(controls)) one.remove();
    const walker = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) found.push(walker.currentNode.data.trim());
    for (const one of panel.querySelectorAll("[aria-label]")) found.push(one.ariaLabel);
    return found.filter(Boolean);
}"""
GO = """(query) => {
    history.pushState(null, "", query);
    dispatchEvent(new PopStateEvent("popstate"));
}"""


class Held:
    """Holds back all answers of the server until they are released."""

    def __init__(self, page: Any) -> None:
        self.page, self.open = page, False
        self.routes: list[Any] = []
        page.route("**/api/*", self.hold)

    def hold(self, route: Any) -> None:
        self.routes.append(route)
        if self.open:
            route.continue_()

    def release(self) -> None:
        self.open = True
        for route in self.routes:
            route.continue_()
        settle(self.page)
        self.page.unroute("**/api/*", self.hold)


def go(page: Any, address: dict[str, Any]) -> None:
    page.evaluate(GO, f"?{urlencode({'text': TEXT, 'layer': 0, 'head': 0, 'token': 3, **address})}")


def frames(page: Any) -> None:
    """Lets the page draw what it would draw now."""
    for _ in range(3):
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


@pytest.mark.parametrize("name", PANELS)
def test_captions_are_those_of_the_question_that_was_answered(decoder, page, name):
    visit(page, decoder, panel="positions", text=TEXT)
    page.evaluate(RECORD)
    address = PANELS[name]
    go(page, address)
    settle(page)
    asked = 0
    for change, what in {**CHANGES, "option": OPTIONS.get(name, {})}.items():
        covered = {"token": OF_ALL_TOKENS, "layer": OF_ALL_LAYERS}
        if name in covered.get(change, ()):
            continue
        before, written = page.evaluate(SAID), set(page.evaluate("window.written"))
        held = Held(page)
        go(page, address | what)
        frames(page)
        try:
            waits = bool(held.routes)
            assert waits or not what or change != "option", change
            asked += waits
            if waits:
                assert page.evaluate(SAID) == before, change
                assert set(page.evaluate("window.written")) <= written, change
                assert page.locator("#panel .stale, form .stale").count() > 0, change
        finally:
            held.release()
        assert page.locator(".stale").count() == 0
        if waits and change == "text" and name not in OF_NO_TEXT:
            assert page.evaluate(SAID) != before
        go(page, address)
        settle(page)
    assert asked > 0


def test_nothing_is_asked_of_a_text_before_it_is_read(decoder, page):
    """Not even where the selected position is beyond the end of the new text."""
    visit(page, decoder, panel="lens", lens_view="mattered", text=TEXT)
    asked: list[dict[str, Any]] = []
    statuses: list[int] = []
    page.on("request", lambda one: "/api/" in one.url and asked.append(one.post_data_json))
    page.on("response", lambda one: "/api/" in one.url and statuses.append(one.status))
    page.get_by_label("Text", exact=True).fill("time flies")
    page.keyboard.press("Enter")
    settle(page)
    of_it = [one for one in asked if one.get("text") == "time flies"]
    model = decoder.ask("models")["models"][0]["id"]
    count = len(decoder.ask("read", model=model, text="time flies")["decoder"])
    assert of_it and all(one.get("position", 0) < count for one in of_it)
    assert not [one for one in asked if one.get("text") == TEXT]
    assert set(statuses) == {200}
