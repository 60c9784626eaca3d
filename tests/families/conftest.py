from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cases import NAMES, Case, sample

MEASURED: dict[str, float] = {}
RESULTS = Path(__file__).parent.parent.parent / "build" / "differences"


@pytest.fixture(scope="session")
def case(request, tmp_path_factory) -> Case:
    return Case(request.param, tmp_path_factory.mktemp("reference"))


@pytest.fixture
def measured(case):
    """Keeps the largest difference that a class showed; `make equality` publishes it."""

    def keep(value: float) -> float:
        name = case.name.architecture
        MEASURED[name] = max(MEASURED.get(name, 0.0), value)
        return value

    return keep


def pytest_sessionfinish():
    if MEASURED:
        RESULTS.mkdir(parents=True, exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        (RESULTS / f"{worker}.json").write_text(json.dumps(MEASURED))


def pytest_generate_tests(metafunc):
    """Runs a test that takes `case` over the cases that its `over` marks select.

    `which` is a predicate on names. `once_per` is what the tested property depends on ("type",
    "body" or "class"): without --all, one case of each is run.
    """
    if "case" not in metafunc.fixturenames:
        return
    names, once_per = NAMES, None
    for mark in metafunc.definition.iter_markers("over"):  # the closest mark first
        if "which" in mark.kwargs:
            names = [name for name in names if mark.kwargs["which"](name)]
        once_per = once_per or mark.kwargs.get("once_per")
    if once_per and not metafunc.config.getoption("all"):
        names = sample(names, once_per)
    metafunc.parametrize("case", names, ids=str, indirect=True, scope="session")
