"""Correlations compared with SciPy's, and perplexity compared with its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.metrics import regression


def test_correlations_as_scipy_has_them():
    x = [5.0, 3.0, 3.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 4.0, 3.0, 5.0]
    y = [6.3, 3.9, 2.3, -0.3, 0.4, 0.0, -2.3, -0.2, -0.2, 3.3, 2.5, 4.7]
    assert regression.pearson(x, y) == pytest.approx(float(np.corrcoef(x, y)[0, 1]))
    assert regression.pearson(x, y) == pytest.approx(0.9464425033901064)
    assert regression.spearman([1, 2, 2, 4], [10, 20, 30, 40]) == pytest.approx(0.9486832980505138)
    assert regression.spearman(np.exp(y), y) == pytest.approx(1.0)
    assert math.isnan(regression.pearson([1, 1], [0, 1]))


def test_perplexity():
    assert regression.perplexity(2 * math.log(8), 2) == pytest.approx(8.0)
    assert regression.perplexity(1e6, 1) == math.inf
