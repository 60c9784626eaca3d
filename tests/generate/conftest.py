from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "families"))

from cases import NAMES, Case, in_transformers, writes
from reference import find_class


def generates(name) -> bool:
    return (
        writes(name)
        and in_transformers(name)
        and hasattr(find_class(name.architecture), "generate")
    )


FIRST = {}
for name in NAMES:
    if generates(name):
        FIRST.setdefault(name.model_type, name)


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
