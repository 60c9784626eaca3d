"""The page in a real browser: how soon a newcomer sees the first picture of `zoo:stories`; and on a
model of the size of GPT-2 small how soon a view is drawn, how smoothly it follows the pointer, how
soon an edit is answered. Needs Chromium and the built page.

For the first picture, server and browser are started anew each time. The large model has random
weights, which take as long as others. Every view is drawn from a text that
nobody has asked about, so that the model's pass is part of its time.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import torch
from playwright.sync_api import Page, Playwright, sync_playwright

import glassformer as gf
from glassformer.page import Server, Session
from glassformer.text import train as train_tokenizer

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from chromium import CHROMIUM  # noqa: E402

WORDS = [
    "time",
    "flies",
    "like",
    "an",
    "arrow",
    "and",
    "fruit",
    "flies",
    "like",
    "a",
    "banana",
    "said",
    "the",
    "robot",
    "to",
    "the",
    "student",
]
ROUNDS = 7
WATCH = """
window.answers = [];
const plain = window.fetch;
window.fetch = async (...given) => {
  const answer = await plain(...given);
  answer.clone().arrayBuffer().then((body) =>
    window.answers.push({url: String(given[0]), bytes: body.byteLength, end: performance.now()}));
  return answer;
};
window.painted = () =>
  new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
window.settled = async () => {
  let quiet = 0;
  while (quiet < 3) {
    await window.painted();
    quiet = document.querySelector("[aria-busy=true]") ? 0 : quiet + 1;
  }
};
"""
# When the page shows first what stands for these, by its own clock.
FIRST = """
window.first = {};
const marks = {skeleton: ".skeleton", picture: ".sheet canvas", prediction: ".outcome li"};
const look = () => {
  for (const [name, selector] of Object.entries(marks))
    if (document.querySelector(selector)) window.first[name] ??= performance.now();
  requestAnimationFrame(look);
};
look();
"""
SEEN = """async () => {
  while (!(window.first.picture && window.first.prediction))
    await new Promise(requestAnimationFrame);
  return window.first;
}"""
DRAWN = """async ({question, count}) => {
  const come = () => window.answers.filter(({url}) => url.endsWith(question)).length;
  while (come() < count) await window.painted();
  await window.settled();
  return performance.now();
}"""
EDITED = """async () => {
  const answers = (question) => window.answers.filter(({url}) => url.endsWith(question)).length;
  const questions = ["api/edit", "api/edit_lens"], found = [];
  const before = questions.map(answers), start = performance.now();
  const switches = document.querySelector("[role=application]");
  switches.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
  switches.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
  for (const [n, question] of questions.entries()) {
    while (answers(question) === before[n]) await new Promise((done) => setTimeout(done, 1));
    await window.painted();
    found.push(performance.now() - start);
  }
  return found;
}"""
FRAMES = """() => {
  window.frames_seen = [];
  const tick = (now) => {
    window.frames_seen.push(now);
    window.ticking = requestAnimationFrame(tick);
  };
  window.ticking = requestAnimationFrame(tick);
}"""


def model_folder() -> Path:
    """Of GPT-2 small's size, made once."""
    folder = ROOT / "build/bench-gpt2-small"
    if not (folder / "config.json").exists():
        roles = {"eos": "<|end|>", "bos": "<|end|>", "unk": "<|end|>"}
        tokenizer = train_tokenizer(
            "byte-bpe", texts=[" ".join(WORDS)], vocab_size=400, special_tokens=roles
        )
        gf.create("gpt2", tokenizer=tokenizer).save(folder)
    return folder


def text_of(tokenizer: gf.Tokenizer, count: int, seed: int) -> str:
    """A text of so many tokens, another one for every seed."""
    generator = torch.Generator().manual_seed(seed)
    picked = torch.randint(len(WORDS), (count,), generator=generator).tolist()
    ids = tokenizer.encode(" ".join(WORDS[i] for i in picked)).ids
    text = tokenizer.decode(ids[:count])
    assert len(tokenizer.encode(text).ids) == count
    return text


def visit(page: Page, server: Server, **address: Any) -> None:
    query = {key.replace("_", "."): value for key, value in address.items()}
    page.goto(f"{server.address}?{urlencode(query)}")


def first_pictures(playwright: Playwright) -> dict[str, Any]:
    """Milliseconds from opening the address to the skeleton, to the patterns of all heads and to
    the prediction: a server that has answered nothing, a browser without a cache."""
    found: dict[str, list[float]] = {}
    command = [sys.executable, "-m", "glassformer", "open", "zoo:stories", "--port", "0"]
    for _ in range(ROUNDS):
        server = subprocess.Popen([*command, "--no-browser"], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.add_init_script(FIRST)
        page.goto(address)
        for name, time in page.evaluate(SEEN).items():
            found.setdefault(name, []).append(time)
        browser.close()
        server.terminate()
        server.wait()
    return {name: median(times) for name, times in found.items()}


def drawn(
    page: Page, server: Server, tokenizer: gf.Tokenizer, view: str, tokens: int
) -> list[float]:
    """Milliseconds from opening the address to the drawing, the page's own start included."""
    found = []
    for seed in range(ROUNDS):
        text = text_of(tokenizer, tokens, seed + 100 * len(view))
        visit(page, server, panel="attention", text=text, layer=11, head=3, attention_view=view)
        found.append(page.evaluate(DRAWN, {"question": "api/attention", "count": 1}))
    return found


def hovered(page: Page) -> dict[str, float]:
    """Frames while the pointer wanders over what is drawn."""
    box = page.locator("[role=application]").first.bounding_box()
    assert box is not None
    page.evaluate(FRAMES)
    height = min(box["height"], 700)
    for step in range(90):
        at = (step * 37 % 100) / 100, (step * 61 % 100) / 100
        page.mouse.move(
            box["x"] + 5 + at[0] * (box["width"] - 10), box["y"] + 5 + at[1] * (height - 10)
        )
    seen = page.evaluate(
        "() => { cancelAnimationFrame(window.ticking); return window.frames_seen; }"
    )
    gaps = sorted(b - a for a, b in pairwise(seen))
    return {
        "frames_per_second": round(1000 * len(gaps) / (seen[-1] - seen[0]), 1),
        "slow_frame_ms": round(gaps[int(len(gaps) * 0.95)], 1),
    }


def edited(page: Page, server: Server, text: str) -> tuple[list[float], list[float]]:
    """Milliseconds from a key that switches a head off to the new prediction, and to the lens. The
    heads are those of the first layer, so that all of the lens changes."""
    visit(page, server, panel="edit", text=text)
    page.locator("[role=application]").first.focus()
    page.evaluate("window.settled()")
    found = []
    for _ in range(ROUNDS):
        found.append(page.evaluate(EDITED))
        page.evaluate("window.settled()")
    predictions, lenses = zip(*found, strict=True)
    return list(predictions), list(lenses)


def median(values: list[float]) -> dict[str, float]:
    return {"median_ms": round(statistics.median(values), 1), "worst_ms": round(max(values), 1)}


def main() -> None:
    results: dict[str, Any] = {}
    with sync_playwright() as playwright:
        for name, times in first_pictures(playwright).items():
            results[f"first {name}, zoo:stories"] = times
    folder = model_folder()
    session = Session([str(folder)])
    session.prepare()
    server = Server(session)
    Thread(target=server.serve_forever, daemon=True).start()
    tokenizer = gf.Tokenizer.load(folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_init_script(WATCH)
        page = context.new_page()
        visit(page, server, panel="attention", text=text_of(tokenizer, 8, 0))
        page.evaluate(DRAWN, {"question": "api/attention", "count": 1})
        predictions, lenses = edited(page, server, text_of(tokenizer, 32, 1))
        results["edit, 32 tokens"] = median(predictions)
        results["edit and its lens, 32 tokens"] = median(lenses)
        for view in ("head", "matrix", "model"):
            times = drawn(page, server, tokenizer, view, 512)
            results[f"{view} view, 512 tokens"] = median(times) | hovered(page)
        browser.close()
    machine = {"cores": torch.get_num_threads(), "torch": torch.__version__}
    for name, numbers in results.items():
        print(name, numbers)
    report = {"machine": machine, "model": "GPT-2 small's size, random", "results": results}
    Path(__file__).with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
