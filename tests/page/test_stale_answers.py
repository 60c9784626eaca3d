"""While a response is computed, a panel shows the previous one with its own captions, dimmed.

The tests delay every response of the server and let them through one kind after the other: at no
time may numbers of one question stand under the captions of another (`watch.js`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import page_models
import pytest
from bare import settle, visit
from quick import quick
from serving import Served, serve

import glassformer as gf

WATCH = Path(__file__).with_name("watch.js").read_text("utf-8")
TEXT, OTHER = "time flies like an arrow", "fruit flies like a banana"
START = {"model": "decoder", "text": TEXT, "layer": 0, "head": 0, "token": 3}
TRANSLATED = {"model": "encoder_decoder", "target": "a fruit"}
MATTERED = {"panel": "lens", "lens.view": "mattered", "lens.mattered": "occlusion"}


def swap_a_token(page: Any) -> None:
    field = page.locator("aside").get_by_role("combobox")
    field.fill(" a")
    page.locator("aside ul[role=listbox] li").first.wait_for()
    field.press("Enter")


def find_texts(page: Any) -> None:
    page.get_by_role("button", name="Find the largest activations").click()


def write(page: Any) -> None:
    page.get_by_label("also generate 16 tokens").check()


def switch_a_head_off(page: Any) -> None:
    page.get_by_role("application", name="Factors of heads").focus()
    page.keyboard.press("Enter")


@dataclass(frozen=True)
class Place:
    """Something that a panel shows of an answer."""

    address: dict[str, Any]
    option: dict[str, Any] = field(default_factory=dict)  # what its own tools ask for
    prepare: Callable[[Any], None] = settle
    act: Callable[[Any], None] = lambda page: None  # in place of an address
    without: tuple[str, ...] = ()  # selections for which it asks nothing, and moves a frame


CHANGES = {
    "text": {"text": "i am a student"},
    "token": {"token": 1},
    "layer": {"layer": 1, "head": 3},
    "head": {"head": 3},
}
ALL_HEADS, ALL_BUT_HEADS = ("layer", "head"), ("text", "token", "layer")
PLACES = {
    "the model": Place({"panel": "walk"}),
    "both stacks": Place({"panel": "walk", **TRANSLATED}),
    "a block": Place({"panel": "walk", "walk.at": "block"}),
    "cross-attention": Place({"panel": "walk", "walk.at": "block", "stack": "cross", **TRANSLATED}),
    "a projection": Place({"panel": "walk", "walk.at": "q"}),
    "a block's head": Place({"panel": "walk", "walk.at": "block"}, without=ALL_BUT_HEADS),
    "a head's projection": Place({"panel": "walk", "walk.at": "q"}, without=ALL_BUT_HEADS),
    "a number": Place({"panel": "walk", "walk.at": "dot", "walk.column": 1}),
    "a vector": Place({"panel": "walk", "walk.at": "residual", "walk.column": 1}),
    "the blocks": Place({"panel": "walk", "walk.at": "stack"}),
    "the probabilities": Place({"panel": "walk", "walk.at": "probabilities"}),
    "the choice": Place({"panel": "walk", "walk.at": "choice"}),
    "lines": Place({"panel": "attention"}),
    "lines across": Place({"panel": "attention", "stack": "cross", **TRANSLATED}),
    "thumbnails": Place({"panel": "attention", "attention.view": "model"}, without=ALL_HEADS),
    "measures of heads": Place(
        {"panel": "attention", "attention.view": "model", "attention.measure": "previous"},
        without=ALL_HEADS,
    ),
    "query and keys": Place({"panel": "attention", "attention.view": "neuron"}),
    "a matrix": Place({"panel": "attention", "attention.view": "matrix"}),
    "candidates": Place({"panel": "next"}, {"next.options": "0.5_3_1_0"}),
    "labels": Place({"panel": "next", "model": "tagger"}),
    "beams": Place({"panel": "next", "next.view": "beams"}, {"next.beams": 4}),
    "steps": Place({"panel": "next", "next.view": "steps"}, {"next.sample": 1}),
    "the lens": Place({"panel": "lens"}, {"lens.token": "5 a"}, without=ALL_HEADS),
    "contributions": Place({"panel": "lens", "lens.view": "parts"}, {"lens.of": "5 a"}),
    "what mattered": Place(
        {"panel": "lens", "lens.view": "mattered"}, {"lens.mattered": "occlusion"}
    ),
    "a swapped token": Place(MATTERED, prepare=swap_a_token),
    "neurons": Place({"panel": "lens", "lens.view": "neurons"}),
    "neurons over texts": Place(
        {"panel": "lens", "lens.view": "neurons", "lens.neuron": 7},
        {"lens.neuron": 8},
        prepare=find_texts,
        without=tuple(CHANGES),
    ),
    "positions": Place({"panel": "positions"}, {"positions.length": 64}),
    "positions of a text": Place({"panel": "positions", "model": "deberta"}),
    "an edit": Place(
        {"panel": "edit"}, prepare=write, act=switch_a_head_off, without=("token", *ALL_HEADS)
    ),
    "a sweep": Place({"panel": "edit", "edit.from": OTHER}, {"edit.place": "z"}),
    "two texts": Place(
        {"panel": "compare", "compare.view": "texts"}, {"compare.text": "the animal"}
    ),
    "two models": Place(
        {"panel": "compare", "compare.a": "decoder", "compare.b": "other"},
        {"compare.a": "other", "compare.b": "decoder"},
    ),
    "a parameter": Place(
        {"panel": "parameters"}, {"parameters.name": "decoder.blocks.0.attention.out.weight"}
    ),
    "circuits": Place(
        {"panel": "parameters", "parameters.view": "circuits"},
        {"parameters.of": "qk", "parameters.by": "q"},
    ),
}
GO = """(query) => {
    history.pushState(null, "", query);
    dispatchEvent(new PopStateEvent("popstate"));
}"""
FRAMES = """new Promise((done) =>
    requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(() => setTimeout(done)))))"""


@pytest.fixture(scope="module")
def several(folders, tmp_path_factory) -> Iterator[Served]:
    made = tmp_path_factory.mktemp("several")
    page_models.shaken(page_models.decoder()).save(made / "other")
    page_models.labeling("TokenClassification").save(made / "tagger")
    tokenizer = page_models.encoder().tokenizer
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64, "vocab_size": tokenizer.size}
    gf.create("deberta-v3-small", tokenizer=tokenizer, **sizes).save(made / "deberta")
    yield from serve(
        folders["decoder"],
        folders["encoder_decoder"],
        *(made / name for name in ("other", "tagger", "deberta")),
    )


class Held:
    """Holds back all answers of the server until they are let through."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.routes: list[Any] = []

    def __enter__(self) -> Held:
        self.page.route("**/api/*", self.hold)
        return self

    def __exit__(self, *error: object) -> None:
        self.page.unroute("**/api/*", self.hold)
        for route in self.routes:
            route.continue_()
        settle(self.page)

    def hold(self, route: Any) -> None:
        self.routes.append(route)

    def kinds(self) -> list[str]:
        """The kinds of requests that wait, first those that read a text, then as they were sent."""
        self.routes = [route for route in self.routes if route.request in self.page.asking]
        found = dict.fromkeys(route.request.url.rpartition("/")[2] for route in self.routes)
        return sorted(found, key=lambda kind: kind not in ("read", "highlight"))

    def let_through(self, kind: str) -> None:
        chosen = [route for route in self.routes if route.request.url.endswith(f"/{kind}")]
        self.routes = [route for route in self.routes if route not in chosen]
        for route in chosen:
            route.continue_()
        while self.page.asking.intersection(route.request for route in chosen):
            self.page.evaluate(FRAMES)
        self.page.evaluate(FRAMES)


def go(page: Any, address: dict[str, Any]) -> None:
    page.evaluate(GO, f"?{urlencode(START | address)}")


def changed(place: Place, change: str) -> dict[str, Any]:
    """The address after a change, or after all of them."""
    changes = {name: what for name, what in CHANGES.items() if name not in place.without}
    changes["option"] = place.option
    return place.address | changes.get(
        change, {k: v for one in changes.values() for k, v in one.items()}
    )


@pytest.mark.parametrize("change", quick(["all", *CHANGES, "option"]))
@pytest.mark.parametrize("name", PLACES)
def test_captions_are_those_of_the_question_that_was_answered(several, page, name, change):
    place = PLACES[name]
    visit(page, several, panel="positions", model="decoder", text=TEXT)
    page.evaluate(WATCH)
    go(page, place.address)
    settle(page)
    place.prepare(page)
    settle(page)
    page.evaluate("watch.begin()")
    seen = []
    with Held(page) as held:
        go(page, changed(place, change))
        place.act(page)
        page.evaluate(FRAMES)
        while kinds := held.kinds():
            page.evaluate("(when) => watch.look(when)", f"before {kinds[0]}")
            held.let_through(kinds[0])
            seen.append(kinds[0])
    assert page.evaluate("watch.end()") == []
    assert page.locator(".stale").count() == 0
    if change == "all":
        assert seen and page.evaluate("watch.changed()")


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
