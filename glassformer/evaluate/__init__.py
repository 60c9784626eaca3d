"""Evaluation: `gf.evaluate(model, "test.jsonl")` computes metrics with confidence intervals."""

from __future__ import annotations

from glassformer.callable_package import make_callable

make_callable(__name__, "glassformer.evaluate.evaluate", "evaluate")
