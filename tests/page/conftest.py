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

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import page_models
from chromium import AXE
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


@pytest.fixture(params=["decoder", "encoder", "encoder_decoder"])
def served(request) -> Served:
    """Each of the three in turn."""
    found: Served = request.getfixturevalue(request.param)
    return found


# --- the browser ----------------------------------------------------------------------------------


@dataclass
class Log:
    """What a page has said on its console, and whom it has asked."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def page(browser) -> Iterator[Any]:
    """A page of a browser; at the end of a test nothing may stand on its console, and no other
    host may have been asked for anything. `page.log` has both."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-US")
    context.set_default_timeout(20_000)
    found = context.new_page()
    found.log = log = Log()
    found.on("console", lambda said: said.type == "error" and log.errors.append(said.text))
    found.on("pageerror", lambda error: log.errors.append(str(error)))
    found.on("request", lambda request: log.requests.append(request.url))
    yield found
    context.close()
    assert log.errors == []
    away = [url for url in log.requests if not url.startswith(("http://127.0.0.1:", "data:"))]
    assert away == []


@pytest.fixture
def axe() -> Any:
    """Looks for what weak eyes or a screen reader would miss: axe(page) gives the findings. What a
    test asks for before that is asked for without axe-core, too."""

    def run(page: Any) -> list[str]:
        if not AXE.exists():
            pytest.skip("labels and contrast left out: axe-core is not installed (make page)")
        if not page.evaluate("'axe' in window"):
            page.evaluate(AXE.read_text("utf-8"))  # past the page's own rules about scripts
        found = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})"
        )
        return [
            f"{one['id']}: {node['html'][:160]} ({node['failureSummary']})"
            for one in found["violations"]
            for node in one["nodes"]
        ]

    return run
