"""Handlers for the list of models and their structure."""

from __future__ import annotations

from typing import Any

import glassformer
from glassformer.inside.lens.tuned_lens import tuned_head
from glassformer.page import describe_model
from glassformer.page.model_sources import ModelSource
from glassformer.page.request_args import RequestArgs
from glassformer.page.session import Session
from glassformer.weights.mapping import build_transformer
from glassformer.weights.quantization import count_parameters

EXAMPLES: dict[str, list[dict[str, str]]] = {  # for models without their own samples
    "decoder": [
        {"text": "The animal didn't cross the street because it was too tired"},
        {"text": "Thanks for all the"},
    ],
    "encoder": [
        {"text": "time flies like an arrow", "pair": "fruit flies like a banana"},
        {"text": "A robot must obey the orders given it by human beings"},
    ],
    "encoder-decoder": [
        {"text": "je suis étudiant"},
        {"text": "The animal didn't cross the street because it was too tired"},
    ],
}


def models(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the list of models and the initial state of the page."""
    entries = [entry(source) for source in session.sources]
    first = dict(entries[0]["examples"][0])
    if session.text is not None:
        first = {"text": session.text}
    if session.head is not None:
        first["output"] = session.head
    start = {"model": entries[0]["id"], **first}
    return {"models": entries, "start": start, "version": glassformer.__version__}


def entry(source: ModelSource) -> dict[str, Any]:
    architecture, spec = source.describe()
    kind = describe_model.model_kind(spec)
    return {
        "id": source.id,
        "name": source.id,
        "kind": kind,
        "architecture": architecture,
        "parameters": count_parameters(build_transformer(spec)),
        "examples": [*source.samples] or EXAMPLES[kind],
        "checkpoints": [checkpoint(one) for one in source.checkpoints],
    }


def checkpoint(source: ModelSource) -> dict[str, Any]:
    snapshot = source.snapshot
    assert snapshot is not None
    return {
        "id": source.id,
        "step": snapshot.step,
        "name": snapshot.name,
        "loss": snapshot.loss,
    }


def structure(session: Session, asked: RequestArgs) -> dict[str, Any]:
    """Returns the structure of a model."""
    id = asked.text("model")
    tuned = tuned_head(session.source(id).place)
    return {"model": id, **describe_model.structure(session.model(id), tuned)}
