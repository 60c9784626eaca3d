"""One thread a worker: the models are tiny, and two workers share two cores."""

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from chromium import CHROMIUM, missing

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script
    signal.signal(signal.SIGINT, signal.default_int_handler)
BROWSER_FLAGS = [  # one process for all pages, which the tests open one after another
    *("--no-sandbox", "--disable-site-isolation-trials", "--renderer-process-limit=1"),
]
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def pytest_addoption(parser):
    parser.addoption(
        "--all",
        action="store_true",
        help="run every configuration, seed and prompt, not one of each kind (make test-all)",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from scheduling import FileOrCaseScheduling

    return FileOrCaseScheduling(config, log)


def pytest_collection_modifyitems(config, items):
    """Tests marked `slow` run with --all only. The families come last: their many small pieces let
    all workers end together."""
    items.sort(key=lambda item: "families" in item.path.parts)
    if config.getoption("all"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.fixture
def glassformer(monkeypatch, capsys):
    """The command line in this process: words come in; the exit code and both outputs go out."""

    def call(*words: str) -> tuple[int, str, str]:
        from glassformer.cli import main

        monkeypatch.setattr(sys, "argv", ["glassformer", *words])
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setenv("GLASSFORMER_DOWNLOAD", "")  # --download sets it for the process
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


@pytest.fixture(scope="session")
def browser():
    """One a process: its driver allows no second."""
    why = missing()
    if why is not None:
        pytest.skip(f"page tests left out: {why}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=BROWSER_FLAGS)
        yield found
        found.close()
