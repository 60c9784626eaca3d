"""Servers with tiny models, and a browser to look at them with.

The tests of the page in a browser need Chromium (Debian's package, or CHROMIUM with its path) and
the `playwright` package; where one is missing they are left out, and `make test` says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import page_models
from bare import PATIENCE, listen
from quick import quick
from serving import Served, serve


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[str, Path]:
    return page_models.save(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def decoder(folders) -> Iterator[Served]:
    yield from serve(folders["decoder"], text="time flies like an arrow")


@pytest.fixture(scope="session")
def encoder(folders) -> Iterator[Served]:
    yield from serve(folders["encoder"])


@pytest.fixture(scope="session")
def encoder_decoder(folders) -> Iterator[Served]:
    yield from serve(folders["encoder_decoder"])


KINDS = ["decoder", "encoder", "encoder_decoder"]


@pytest.fixture(params=KINDS)
def served(request) -> Served:
    """Each of the three in turn."""
    found: Served = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=quick(KINDS))
def shown(request) -> Served:
    """As `served`, for what a panel shows of every kind alike: the quick suite looks at one."""
    found: Served = request.getfixturevalue(request.param)
    return found


# --- the browser ----------------------------------------------------------------------------------


@dataclass
class Log:
    """What a page has said on its console, and whom it has asked."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


VIEWPORT = {"width": 1280, "height": 900}


@pytest.fixture(scope="session")
def tab(browser) -> Iterator[Any]:
    """The one page that all tests use in turn: a new window costs Chromium half a second."""
    from playwright.sync_api import expect

    context = browser.new_context(viewport=VIEWPORT, locale="en-US")
    context.set_default_timeout(1000 * PATIENCE)
    expect.set_options(timeout=1000 * PATIENCE)
    found = context.new_page()
    listen(found)
    found.devtools = context.new_cdp_session(found)
    yield found
    context.close()


@pytest.fixture
def page(tab) -> Iterator[Any]:
    """A page without stored data; at the end of a test nothing may stand on its console, and no
    other host may have been asked for anything. `page.log` has both."""
    tab.log = log = Log()
    listeners = {
        "console": lambda said: said.type == "error" and log.errors.append(said.text),
        "pageerror": lambda error: log.errors.append(str(error)),
        "request": lambda request: log.requests.append(request.url),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield tab
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    tab.goto("about:blank")
    tab.set_viewport_size(VIEWPORT)
    tab.emulate_media(color_scheme="null", reduced_motion="null")
    for origin in {"{0.scheme}://{0.netloc}".format(urlparse(url)) for url in log.requests}:
        clear = {"origin": origin, "storageTypes": "local_storage"}
        tab.devtools.send("Storage.clearDataForOrigin", clear)
    assert log.errors == []
    away = [url for url in log.requests if not url.startswith(("http://127.0.0.1:", "data:"))]
    assert away == []


@pytest.fixture
def axe() -> Any:
    """Looks for what weak eyes or a screen reader would miss: axe(page) gives the findings."""
    from axe_playwright_python.base import AXE_SCRIPT

    def run(page: Any) -> list[str]:
        if not page.evaluate("'axe' in window"):
            page.evaluate(AXE_SCRIPT)  # past the page's own rules about scripts
        found = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})"
        )
        return [
            f"{one['id']}: {node['html'][:160]} ({node['failureSummary']})"
            for one in found["violations"]
            for node in one["nodes"]
        ]

    return run
