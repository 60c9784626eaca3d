"""Handlers for the parameter table and the distribution of a tensor's values."""

from __future__ import annotations

from typing import TypedDict

from glassformer.inside.weights.parameters import Parameter, distribution_of
from glassformer.inside.weights.parameters import parameters as parameter_table
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import ModelRequest
from glassformer.page.routes import route
from glassformer.page.session import Session
from glassformer.weights.quantization import count_parameters


class ParametersResponse(TypedDict):
    total: int
    parts: list[Parameter]


class HistogramRequest(ModelRequest):
    name: str


class HistogramResponse(TypedDict):
    """The distribution of a tensor's values; there is one more edge than counts.

    `zeros` is the fraction of exact zeros; `sampled` tells that only a part of the tensor was used.
    """

    name: str
    edges: list[float]
    counts: list[int]
    mean: float
    deviation: float
    least: float
    most: float
    zeros: float
    sampled: bool


@route("parameters")
def parameters(session: Session, request: RequestArgs[ModelRequest]) -> ParametersResponse:
    """Returns the parameter table of a model."""
    model = session.model(request.text("model"))
    return {"total": count_parameters(model), "parts": parameter_table(model)}


@route("histogram")
def histogram(session: Session, request: RequestArgs[HistogramRequest]) -> HistogramResponse:
    """Returns the distribution of a tensor's values."""
    name = request.text("name")
    found = distribution_of(session.model(request.text("model")), name)
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
