from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cases import NAMES, Case


def grouped(names):
    """All tests of one case go to one worker, which makes its models once."""
    return [
        pytest.param(name, marks=pytest.mark.xdist_group(str(name)), id=str(name)) for name in names
    ]


@pytest.fixture(scope="session")
def case(request, tmp_path_factory) -> Case:
    return Case(request.param, tmp_path_factory.mktemp("reference"))


def pytest_generate_tests(metafunc):
    """`case` runs over all cases, or over those that the test's `over` mark lets through."""
    if "case" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("over")
        names = [name for name in NAMES if mark is None or mark.kwargs["which"](name)]
        metafunc.parametrize("case", grouped(names), indirect=True, scope="session")
