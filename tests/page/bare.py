"""What a model computes, without `inside` or `page`: the model itself, with a tap of our own."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import torch
from torch import Tensor

import glassformer as gf
from glassformer.core import ActivationCapture

MINUS = "\u2212"
# Colors pass into others, and pictures are drawn for another width: a frame or two later.
CHANGED = """new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))
    .then(() => Promise.allSettled(document.getAnimations()
        .filter((one) => one.effect.getComputedTiming().endTime < Infinity)
        .map((one) => one.finished)))"""
# Notes what is written on canvases, each with its place.
RECORD = """() => {
    window.written = [];
    const plain = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const { e, f } = this.getTransform();
        window.written.push(`${text} at ${Math.round(x + e)}, ${Math.round(y + f)}`);
        return plain.call(this, text, x, y);
    };
}"""
# Nothing is loading, and nothing in sight is an answer to the question before.
ANSWERED = "!document.querySelector('[aria-busy=true], .stale')"
PATIENCE = 60  # seconds, also on a machine with other work


class Reference:
    """A model that was saved, run on one text (and its target)."""

    def __init__(self, folder: Path, text: str, target: str | None = None) -> None:
        self.model = gf.load(folder)
        self.ids = self.model.tokenizer.encode(text).ids
        self.text = text

    def run(self, tap: Callable[[str, Tensor], Tensor] | None = None) -> Tensor:
        """Logits [position, token]."""
        with torch.no_grad():
            return self.model(torch.tensor([self.ids]), tap=tap).logits[0]

    def seen(self, name: str) -> Tensor:
        """What passes at a name, without the batch."""
        capture = ActivationCapture(name)
        self.run(capture)
        return capture[name][0]

    def without_head(self, name: str, head: int) -> Tensor:
        """Logits of a run in which a head says nothing."""

        def tap(at: str, value: Tensor) -> Tensor:
            if at != name:
                return value
            value = value.clone()
            value[:, head] = 0
            return value

        return self.run(tap)

    def word(self, token: int) -> str:
        return visible(self.model.tokenizer.decode([token]))

    def same(self, names: list[str], tokens: list[int]) -> bool:
        """Whether these are the tokens' texts; parts of letters, which are none, are left out."""
        words = [self.word(token) for token in tokens]
        pairs = zip(names, words, strict=True)
        return all(name == word for name, word in pairs if "\ufffd" not in word)

    def words(self) -> list[str]:
        return [self.word(token) for token in self.ids]


def visible(text: str) -> str:
    return text.replace(" ", "·").replace("\n", "↵").replace("\t", "⇥")


def percent(share: float) -> str:
    """As page/src/format.ts writes shares."""
    if share >= 0.9995:
        return "100%" if share == 1 else ">99.9%"
    if 0 < share < 0.0005:
        return "<0.1%"
    return f"{share * 100:.{1 if share < 0.1 or share >= 0.995 else 0}f}%"


def shares(text: str) -> list[float]:
    """The percentages of a text, as shares; what is below a tenth of one is 0."""
    found = [word for word in text.replace("\n", " ").split() if word.endswith("%")]
    return [
        0.0 if word[0] == "<" else 1.0 if word[0] == ">" else float(word[:-1]) / 100
        for word in found
    ]


def number(text: str) -> float:
    """A number as the page writes it."""
    return float(text.replace(MINUS, "-").replace(",", ""))


def visit(page: Any, served: Any, **address: Any) -> None:
    """Opens an address of the page, at layer 0 and head 0 unless it names others, and waits until
    nothing is being asked."""
    listen(page)
    address = {"layer": 0, "head": 0, **address}
    query = {key.replace("_", ".", 1): value for key, value in address.items()}
    page.goto(f"{served.address}?{urlencode(query)}")
    settle(page)


def listen(page: Any) -> None:
    """Keeps the requests of a page that are open in `page.asking`."""
    if hasattr(page, "asking"):
        return
    page.asking = set()
    page.on("request", lambda request: page.asking.add(request))
    for end in ("requestfinished", "requestfailed"):
        page.on(end, lambda request: page.asking.discard(request))


def addressed(page: Any, *parts: str) -> bool:
    """Whether the page's address has all of these, soon: a browser tells of it after the fact."""
    from playwright.sync_api import expect

    for part in parts:
        expect(page).to_have_url(re.compile(re.escape(part)))
    return all(part in page.url for part in parts)


def until(page: Any, condition: str, arg: Any = None) -> None:
    """Waits until a condition in the page holds. `page.wait_for_function` does so only if it holds
    at once: its later looks are against the page's own rules about scripts."""
    end = time.monotonic() + PATIENCE
    while not page.evaluate(condition, arg):
        assert time.monotonic() < end, condition
        page.evaluate(CHANGED)


def settle(page: Any) -> None:
    """Waits until a panel, its error or that there is no text is shown, and for some frames no
    request has been open and nothing has been loading."""
    page.locator("#panel section, #panel [role=alert], #panel .nothing").first.wait_for()
    quiet, end = 0, time.monotonic() + PATIENCE
    while quiet < 3:
        page.evaluate(CHANGED)
        quiet = quiet + 1 if not page.asking and page.evaluate(ANSWERED) else 0
        assert time.monotonic() < end, [request.url for request in page.asking] or "still loading"
