from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cases import NAMES, Case

MEASURED: dict[str, float] = {}
RESULTS = Path(__file__).parent.parent.parent / "build" / "differences"


def grouped(names):
    """All tests of one case go to one worker, which makes its models once."""
    return [
        pytest.param(name, marks=pytest.mark.xdist_group(str(name)), id=str(name)) for name in names
    ]


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
    """`case` runs over all cases, or over those that the test's `over` mark lets through."""
    if "case" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("over")
        names = [name for name in NAMES if mark is None or mark.kwargs["which"](name)]
        metafunc.parametrize("case", grouped(names), indirect=True, scope="session")
