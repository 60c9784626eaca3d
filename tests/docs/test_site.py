"""The site builds without warnings, needs no network, and works from a folder by file://."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from blocks import ROOT

OUTSIDE = re.compile(r"^\s*(?:\w+:)?//")
FETCHED = {  # what a browser asks for by itself when it shows a page
    "script": ("src",), "img": ("src", "srcset"), "link": ("href",), "iframe": ("src",),
    "source": ("src", "srcset"), "video": ("src", "poster"), "audio": ("src",), "embed": ("src",),
    "object": ("data",), "use": ("href",), "form": ("action",),
}  # fmt: skip


class Asked(HTMLParser):
    """The addresses that a page asks for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "link" and named.get("rel") in ("prev", "next", "canonical"):
            return
        self.found += [named[key] or "" for key in FETCHED.get(tag, ()) if key in named]
        self.found += css_addresses(named.get("style") or "")


def css_addresses(text: str) -> list[str]:
    found = re.findall(r"""url\(\s*["']?(.*?)["']?\s*\)|@import\s+["'](.*?)["']""", text)
    return [one or other for one, other in found]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert made.returncode == 0 and "WARNING" not in made.stderr, made.stderr
    return folder


def test_every_page_is_in_the_navigation(site):
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs).with_suffix("")) for path in docs.rglob("*.md")}
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    assert pages == set(re.findall(r"([\w/-]+)\.md", nav))
    assert all((site / f"{page}.html").is_file() for page in pages)


def test_what_a_page_asks_for_is_found():
    page = (
        '<script src="//x.org/y.js"></script><p style="background: url(http://a/b)"><a href="//">'
    )
    assert Asked(page).found == ["//x.org/y.js", "http://a/b"]
    assert css_addresses("@import 'a.css'; b { c: url( \"d\" ) }") == ["a.css", "d"]


def test_nothing_outside_is_asked_for(site):
    asked = {path: Asked(path.read_text("utf-8")).found for path in site.rglob("*.html")}
    assert all(asked.values())
    asked |= {path: css_addresses(path.read_text("utf-8")) for path in site.rglob("*.css")}
    found = {(path.name, one) for path, several in asked.items() for one in several}
    assert [each for each in found if OUTSIDE.match(each[1])] == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_by_file_it_is_whole_and_searches(site, browser, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 400, "height": 800})
    page = context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    failed: list[tuple[str, str | None]] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: failed.append((request.url, request.failure)))
    pages = [path for path in sorted(site.rglob("*.html")) if path.name != "404.html"]
    for path in pages if scheme == "light" else pages[-1:]:
        page.goto(path.as_uri())
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 400, f"{path.name} is {width} wide"
    assert page.evaluate("document.body.dataset.mdColorScheme") == {
        "light": "default", "dark": "slate"}[scheme]  # fmt: skip
    page.locator("label[for=__search]").first.click()
    page.locator(".md-search__input").press_sequentially("adalora")
    page.locator(".md-search-result__item a").first.wait_for()
    found = page.locator(".md-search-result__item a").first.get_attribute("href")
    assert found is not None and "adapters.html" in found
    context.close()
    assert wrong == []
    missing = [url for url, why in failed if why != "net::ERR_ABORTED"]  # by going to the next page
    assert missing == []
    assert {url.partition(":")[0] for url in asked} <= {"file", "data", "blob", "about"}
