"""Handlers for the parameter table and the distribution of a tensor's values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glassformer.inside.weights.parameters import distribution_of
from glassformer.inside.weights.parameters import parameters as table
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import Session
from glassformer.weights.quantization import count_parameters


def parameters(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the parameter table of a model."""
    net = session.model(asked.text("model"))
    return {"total": count_parameters(net), "parts": [asdict(part) for part in table(net)]}


def histogram(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the distribution of a tensor's values."""
    name = asked.text("name")
    found = distribution_of(session.model(asked.text("model")), name)
    bars = found.histogram
    width = (bars.high - bars.low) / len(bars.counts)
    return {
        "name": name,
        "edges": [bars.low + width * i for i in range(len(bars.counts) + 1)],
        "counts": list(bars.counts),
        "mean": found.mean,
        "deviation": found.std,
        "least": found.low,
        "most": found.high,
        "zeros": found.zeros,
        "sampled": found.sampled,
    }
