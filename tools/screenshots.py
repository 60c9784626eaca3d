"""Pictures of the page for docs/page.md, taken in Chromium:

    python tools/screenshots.py [NAME ...]

The decoder is the built-in Shakespeare; the others are learned first, in a few minutes, and kept
in build/pictures (tools/picture_models.py). Needs Chromium, Playwright and Pillow, which brings the
pictures to palettes of 256 colors, so that they stay small.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

from picture_models import make
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from glassformer.page import Server, Session

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from chromium import CHROMIUM  # noqa: E402

OUT = ROOT / "docs" / "images" / "page"
WIDTH, HEIGHT, LARGEST = 1280, 1080, 150_000

SPEECH = {"model": "shakespeare", "text": "ROMEO:\nIs the day so young?"}
GAP = {
    "model": "masked",
    "text": "the animal didn't cross the street because it was too wide so the [MASK] stayed empty",
}
FRENCH = {
    "model": "translator",
    "text": "le chat noir ne voit pas la voiture rouge",
    "target": "the black cat does not see the red car",
}
OFF = json.dumps(
    [
        {"kind": "scale", "at": "decoder.blocks.3.z", "heads": [2, 3], "factor": 0},
        {"kind": "scale", "at": "decoder.blocks.5.ffn_out", "factor": 0},
    ]
)
SEEN = {"attention.least": "0.1"}
CHANGED = {"compare.a": "shakespeare", "compare.b": "modern-english@60"}
SHOTS: dict[str, dict[str, str | int]] = {
    "walk": {**SPEECH, "panel": "walk"},
    "walk-block": {**SPEECH, "panel": "walk", "walk.at": "block", "layer": 5, "head": 1},
    "attention": {**SPEECH, "panel": "attention", "layer": 5, "head": 1},
    "next": {**SPEECH, "panel": "next"},
    "lens": {**SPEECH, "panel": "lens", "layer": 2},
    "positions": {**SPEECH, "panel": "positions"},
    "edit": {**SPEECH, "panel": "edit", "layer": 3, "head": 3, "edit.list": OFF},
    "compare": {**SPEECH, "panel": "compare", "layer": 5, "head": 2, **CHANGED},
    "parameters": {**SPEECH, "panel": "parameters"},
    "circuits": {**SPEECH, "panel": "parameters", "parameters.view": "circuits", "layer": 3},
    "encoder-walk": {**GAP, "panel": "walk"},
    "encoder-attention": {**GAP, "panel": "attention", "layer": 2, "head": 1, **SEEN},
    "encoder-lens": {**GAP, "panel": "lens", "layer": 1},
    "encoder-decoder-walk": {**FRENCH, "panel": "walk"},
    "encoder-decoder-attention": {**FRENCH, "panel": "attention", "stack": "cross", "layer": 1},
    "encoder-decoder-lens": {**FRENCH, "panel": "lens"},
    "dark": {**FRENCH, "panel": "walk", "walk.at": "block", "layer": 1},
}
TALLEST = {"compare": 1090, "circuits": 1700}


def main(wanted: list[str]) -> None:
    made = make()
    sources = [
        "shakespeare",
        *(str(made[name]) for name in ("masked", "translator", "modern-english")),
    ]
    server = Server(Session(sources))
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    OUT.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name in wanted or SHOTS:
            page = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme="dark" if name == "dark" else "light",
                reduced_motion="reduce",
                locale="en-US",
            )
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
    return Image.open(io.BytesIO(image)).crop((0, 0, WIDTH, height))


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
