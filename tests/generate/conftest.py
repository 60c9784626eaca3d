from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "families"))
sys.path.insert(0, str(Path(__file__).parent))

from cases import Case
from writers import FIRST, KINDS


@pytest.fixture(scope="session")
def case(request, tmp_path_factory) -> Case:
    return Case(request.param, tmp_path_factory.mktemp("reference"))


def pytest_generate_tests(metafunc):
    """`case` runs over one class that writes of every model type."""
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", FIRST.values(), ids=str, indirect=True, scope="session")


def pytest_collection_modifyitems(config, items):
    """Without --all, what does not depend on the family runs on one model of each kind."""
    if config.getoption("all"):
        return

    def repeats(item) -> bool:
        mark = item.get_closest_marker("over")
        if mark is None or mark.kwargs.get("once_per") != "kind":
            return False
        return item.callspec.params["case"].model_type not in KINDS

    dropped = [item for item in items if repeats(item)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if not repeats(item)]
