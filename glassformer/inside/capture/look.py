"""The entry point `look`, which runs a model on a text and returns a `View`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from glassformer.inside.attribute.predictions import head_with_outputs
from glassformer.inside.capture.model_inputs import Text, read_inputs
from glassformer.inside.capture.names import matching
from glassformer.inside.capture.view import View
from glassformer.inside.intervene.edit import Edit
from glassformer.inside.intervene.editing import resolve
from glassformer.tasks.model_protocol import TaskModel


def look(
    model: TaskModel,
    text: Text,
    target: Text | None = None,
    at: str | Iterable[str] = (),
    *,
    head: str | None = None,
    edits: Iterable[Edit | Mapping[str, Any]] = (),
) -> View:
    """Runs one forward pass and returns a `View` of it.

    Args:
        model: The model to run.
        text: The input text.
        target: The decoder text of an encoder-decoder model.
        at: Names or shell patterns of tensors to capture in this pass, `*` for all. Tensors
            requested later each need another pass.
        head: The head whose outputs are used if the model has several, by default the first
            suitable one.
        edits: Edits that apply to this view only, after those of `model.edit`.

    Returns:
        The view.
    """
    if head is not None:
        head_with_outputs(model, head)
    wanted = matching(model.spec, (at,) if isinstance(at, str) else at)
    edits = list(edits)
    view = View(
        model, read_inputs(model, text, target), resolve(model, edits) if edits else None, head
    )
    view.begin(wanted)
    return view
