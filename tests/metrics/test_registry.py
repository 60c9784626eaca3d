"""The registry of metrics: directions, names of parts, and the table of the guide."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from glassformer.errors import ConfigError
from glassformer.metrics.registry import METRICS, find_metric
from glassformer.train.early_stopping import is_better

GUIDE = Path(__file__).parent.parent.parent / "docs" / "tasks.md"


@pytest.mark.parametrize(
    ("name", "smaller"),
    [
        ("loss", True),
        ("loss.lm", True),
        ("loss.reviews/lm", True),
        ("notes/perplexity", True),
        ("error", True),
        ("f1", False),
        ("reviews/f1", False),
    ],
)
def test_the_better_value(name, smaller):
    assert is_better(name, 1.0, 2.0) == smaller
    assert is_better(name, 2.0, 1.0) == (not smaller)


def test_an_undeclared_metric_is_refused():
    with pytest.raises(ConfigError, match=r"There is no metric 'acuracy'; did you mean 'accuracy'"):
        find_metric("acuracy")


def test_the_guide_lists_every_metric():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (larger|smaller) \|$", GUIDE.read_text(), re.M)
    better = {True: "smaller", False: "larger"}
    assert rows == [
        (name, metric.about, better[metric.smaller_is_better])
        for name, metric in METRICS.all().items()
    ]
