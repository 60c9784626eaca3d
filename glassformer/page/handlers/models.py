"""Handlers for the list of models and their structure."""

from __future__ import annotations

from typing import NotRequired, TypedDict, cast

import glassformer
from glassformer.inside.lens.tuned_lens import tuned_head
from glassformer.page import describe_model
from glassformer.page.model_description import ModelKind, StructureResponse
from glassformer.page.model_sources import ModelSource
from glassformer.page.request_args import RequestArgs
from glassformer.page.request_types import ModelRequest
from glassformer.page.routes import route
from glassformer.page.session import Session


class ExampleText(TypedDict):
    text: str
    pair: NotRequired[str]
    target: NotRequired[str]


class InitialState(ExampleText):
    """The model, text and head that the page shows if the address names none."""

    model: str
    output: str | None


class CheckpointEntry(TypedDict):
    """A checkpoint of a run folder; `name` is "best", "model" (the end of the run) or None."""

    id: str
    step: int
    name: str | None
    loss: float | None


class ModelEntry(TypedDict):
    """A model; for a run folder, `id` stands for the last of its checkpoints."""

    id: str
    name: str
    kind: ModelKind
    architecture: str
    examples: list[ExampleText]
    checkpoints: list[CheckpointEntry]


class ModelsRequest(TypedDict):
    pass


class ModelsResponse(TypedDict):
    models: list[ModelEntry]
    start: InitialState
    version: str


EXAMPLES: dict[str, list[ExampleText]] = {  # for models without their own samples
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


@route("models")
def models(session: Session, request: RequestArgs[ModelsRequest]) -> ModelsResponse:
    """Returns the list of models and the initial state of the page."""
    entries = [entry(source) for source in session.sources]
    example: ExampleText = {"text": session.text or ""}
    if session.text is None:
        example = entries[0]["examples"][0]
    start: InitialState = {"model": entries[0]["id"], "output": session.head, **example}
    return {"models": entries, "start": start, "version": glassformer.__version__}


def entry(source: ModelSource) -> ModelEntry:
    architecture, spec = source.describe()
    kind = describe_model.model_kind(spec)
    samples = cast(list[ExampleText], list(source.samples))
    return {
        "id": source.id,
        "name": source.id,
        "kind": kind,
        "architecture": architecture,
        "examples": samples or EXAMPLES[kind],
        "checkpoints": [checkpoint(one) for one in source.checkpoints],
    }


def checkpoint(source: ModelSource) -> CheckpointEntry:
    snapshot = source.snapshot
    assert snapshot is not None
    return {
        "id": source.id,
        "step": snapshot.step,
        "name": snapshot.name,
        "loss": snapshot.loss,
    }


@route("structure")
def structure(session: Session, request: RequestArgs[ModelRequest]) -> StructureResponse:
    """Returns the structure of a model."""
    id = request.text("model")
    tuned = tuned_head(session.source(id).place)
    return describe_model.structure(id, session.model(id), tuned)


class ComparableResponse(TypedDict):
    """The models that a model can be compared with: those with the same tokenizer."""

    models: list[str]


@route("comparable")
def comparable(session: Session, request: RequestArgs[ModelRequest]) -> ComparableResponse:
    """Returns the models whose tokens are those of a model, itself included."""
    own = session.tokenizer_fingerprint(request.text("model"))
    same = [one.id for one in session.sources if session.tokenizer_fingerprint(one.id) == own]
    return {"models": same}
