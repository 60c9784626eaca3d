from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "families"))
sys.path.insert(0, str(Path(__file__).parent))

from cases import Case
from writers import FIRST


@pytest.fixture(scope="session")
def case(request, tmp_path_factory) -> Case:
    return Case(request.param, tmp_path_factory.mktemp("reference"))


def pytest_generate_tests(metafunc):
    """`case` runs over one class that writes of every model type."""
    if "case" in metafunc.fixturenames:
        params = [
            pytest.param(n, marks=pytest.mark.xdist_group(f"generate-{n}"), id=n.model_type)
            for n in FIRST.values()
        ]
        metafunc.parametrize("case", params, indirect=True, scope="session")
