"""Which browser the page is tried in. `python tests/chromium.py` says so if there is none."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def missing() -> str | None:
    """Why the page cannot be tried, if it cannot."""
    if CHROMIUM is None:
        return "no Chromium was found (apt-get install chromium, or CHROMIUM=path)"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "the package playwright is not installed"
    return None


if __name__ == "__main__":
    if missing() is not None:
        print(f"The tests of the page in a browser were left out: {missing()}.")
