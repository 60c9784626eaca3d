"""How well a classifier of CLINC150 tells what is out of its scope: recipes/tuned.py asks that of
both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hugging import read

from bench import ROOT
from glassformer.tasks.classify import Classification
from glassformer.tasks.monitor.thresholds import best_threshold


def scope_scores(
    classified: Callable[[list[dict[str, Any]]], list[Classification]], every: int
) -> dict[str, float]:
    """A threshold from validation texts of both kinds; then, on the test's: how many in scope get
    their label, without it and with it, how many of the others none, and how well the probability
    of the best label tells the kinds apart (AUROC)."""
    folder = ROOT / "data" / "classify" / "clinc150"
    known, test = (read(str(folder / f"{name}.jsonl"))[::every] for name in ("scope", "test"))
    threshold = best_threshold(classified(known), [one["label"] for one in known])
    results = classified(test)
    best = [max(one.probabilities, key=one.probabilities.__getitem__) for one in results]
    chance = np.array([max(one.probabilities.values()) for one in results])
    right = np.array([said == one["label"] for said, one in zip(best, test, strict=True)])
    inside = np.array([one["label"] is not None for one in test])
    holds = chance >= threshold
    return {
        "accuracy": float(right[inside].mean()),
        "accuracy with threshold": float((right & holds)[inside].mean()),
        "recall out of scope": float((~holds)[~inside].mean()),
        "auroc": auroc(chance, inside),
        "threshold": threshold,
    }


def auroc(scores: np.ndarray[Any, Any], positive: np.ndarray[Any, Any]) -> float:
    """How often one of the positive kind scores higher than one of the other; ties count half."""
    others = np.sort(scores[~positive])
    below = np.searchsorted(others, scores[positive], "left")
    upto = np.searchsorted(others, scores[positive], "right")
    return float((below + upto).mean() / 2 / len(others))
