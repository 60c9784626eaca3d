"""Compiled models equal eager ones: one class with a head of every model type."""

from __future__ import annotations

import pytest
import torch
from cases import NAMES, TOLERANCE, Name, difference

FIRST = {}
for name in NAMES:
    if name.index == 0 and name.spec.heads and name.spec.heads[0].num_outputs is not None:
        FIRST.setdefault(name.model_type, name)


def first_of_its_type(name: Name) -> bool:
    return FIRST.get(name.model_type) == name


@pytest.mark.over(which=first_of_its_type)
@pytest.mark.parametrize(
    "backend",
    [
        "eager",
        pytest.param("aot_eager", marks=pytest.mark.slow),
        pytest.param("inductor", marks=pytest.mark.slow),
    ],
)
def test_compiled_as_eager(case, backend):
    """`eager` shows that the graph is whole and equal; tests/core runs inductor, too."""
    batch = case.batch((9, 12, 5, 12), "left")
    torch._dynamo.reset()
    compiled = torch.compile(case.model, fullgraph=True, backend=backend)
    assert difference(case.ours(batch, model=compiled), case.ours(batch)) <= TOLERANCE
