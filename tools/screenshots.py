"""Pictures of the page for docs/page.md, taken in Chromium, of models of the zoo:

    python tools/screenshots.py [NAME ...]

Needs Chromium, Playwright and Pillow, which brings the pictures to palettes of 256 colors, so that
they stay small.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from glassformer.page import Server, Session
from glassformer.zoo import PREFIX, for_a_visitor, samples_of

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from chromium import CHROMIUM  # noqa: E402

OUT = ROOT / "docs" / "images" / "page"
WIDTH, HEIGHT, LARGEST = 1280, 1700, 150_000
PATIENCE = 300_000  # milliseconds, also on a machine with other work

STORY = {"model": "stories", **samples_of("stories")[0]}
GAP = {
    "model": "encoder",
    "text": "The little girl said that [MASK] had lost her mother in the crowd.",
}
FRENCH = {
    "model": "translator",
    "text": ">>en<< Le chien blanc ne veut pas manger de viande rouge.",
    "target": "The white dog doesn't want to eat red meat.",
    "token": 8,  # eat: red comes next
}
LETTERS = {"model": "letters", "text": "ROMEO:\nWhat light"}
RECEIVER = {"layer": 5, "head": 3}  # of the story: looks at whom something is given to
ORDER = {"layer": 1, "head": 2}  # of the translator: looks at the word to translate next
STRONG = {"attention.least": "0.1"}
OFF = json.dumps([{"kind": "scale", "at": "decoder.blocks.5.z", "heads": [0, 3], "factor": 0}])
SHOTS: dict[str, dict[str, str | int]] = {
    "walk": {**STORY, "panel": "walk"},
    "walk-block": {**STORY, "panel": "walk", "walk.at": "block", **RECEIVER},
    "attention": {**STORY, "panel": "attention", **RECEIVER, **STRONG},
    "next": {**STORY, "panel": "next"},
    "beams": {**STORY, "panel": "next", "next.view": "beams"},
    "steps": {**STORY, "panel": "next", "next.view": "steps", "next.step": 3},
    "lens": {**STORY, "panel": "lens", "layer": 5},
    "attribution": {**STORY, "panel": "lens", "lens.view": "parts", **RECEIVER},
    "mattered": {**STORY, "panel": "lens", "lens.view": "mattered"},
    "positions": {**STORY, "panel": "positions"},
    "edit": {**STORY, "panel": "edit", **RECEIVER, "edit.list": OFF},
    "compare": {**LETTERS, "panel": "compare", "layer": 1, "compare.a": "letters@100"},
    "parameters": {**STORY, "panel": "parameters"},
    "circuits": {**STORY, "panel": "parameters", "parameters.view": "circuits", **RECEIVER},
    "encoder-walk": {**GAP, "panel": "walk"},
    "encoder-attention": {**GAP, "panel": "attention", "layer": 5, "head": 2, **STRONG},
    "encoder-lens": {**GAP, "panel": "lens", "layer": 5},
    "encoder-decoder-walk": {**FRENCH, "panel": "walk"},
    "encoder-decoder-attention": {**FRENCH, "panel": "attention", "stack": "cross", **ORDER},
    "encoder-decoder-lens": {**FRENCH, "panel": "lens"},
    "chinese": {**FRENCH, "panel": "next", "lang": "zh"},
    "dark": {**FRENCH, "panel": "walk", "walk.at": "block", **ORDER},
}
TALLEST = {"compare": 1866}
# Some of them also on a wide screen and on a phone.
WIDTHS = {
    f"{name}-{width}": width
    for name in ("walk", "attention", "next", "mattered")
    for width in (1920, 390)
}
SHOTS |= {name: SHOTS[name.rpartition("-")[0]] for name in WIDTHS}
TALLEST |= dict.fromkeys(WIDTHS, 1866)


def main(wanted: list[str]) -> None:
    server = Server(Session([f"{PREFIX}{name}" for name in for_a_visitor()]))
    Thread(target=server.serve_forever, daemon=True).start()
    OUT.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name in wanted or SHOTS:
            page = browser.new_page(
                viewport={"width": WIDTHS.get(name, WIDTH), "height": HEIGHT},
                color_scheme="dark" if name == "dark" else "light",
                reduced_motion="reduce",
                locale="en-US",
            )
            page.set_default_timeout(PATIENCE)
            page.add_init_script("localStorage.setItem('glassformer.tour', 'seen')")
            page.goto(f"{server.address}?{urlencode(SHOTS[name])}")
            keep(name, taken(page, TALLEST.get(name)))
            page.close()
        browser.close()
    server.shutdown()


def taken(page: Page, tallest: int | None) -> Image.Image:
    """All of the page, as soon as nothing changes any more; no empty rim below."""
    page.locator("#panel > *").first.wait_for()
    before, image = b"", b" "
    while image != before:
        page.wait_for_load_state("networkidle")
        page.locator("[aria-busy=true]").first.wait_for(state="detached")
        page.wait_for_timeout(300)
        before, image = image, page.screenshot(full_page=True)
    bottom = page.evaluate("document.querySelector('#panel').getBoundingClientRect().bottom")
    height = min(int(bottom) + 24, tallest or int(bottom) + 24)
    whole = Image.open(io.BytesIO(image))
    return whole.crop((0, 0, whole.width, height))


def keep(name: str, image: Image.Image) -> None:
    path = OUT / f"{name}.png"
    few = image.convert("RGB").quantize(
        256, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE
    )  # in that way also colors that are rare stay, such as those of heads
    few.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)} {image.width} x {image.height}, {size / 1000:.0f} kB")
    if size > LARGEST:
        raise SystemExit(f"{path} is larger than {LARGEST:,} bytes: show less of that panel.")


if __name__ == "__main__":
    main(sys.argv[1:])
