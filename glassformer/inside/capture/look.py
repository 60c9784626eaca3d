"""The entry point `look`, which returns a `View` of a text in a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from glassformer.inside.attribute.predictions import head_with_outputs
from glassformer.inside.capture.model_inputs import Text, encode_inputs
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
    """Returns a `View` of a text, which runs a forward pass when a tensor is read from it.

    Args:
        model: The model to run.
        text: The input text.
        target: The decoder text of an encoder-decoder model.
        at: Names or shell patterns of tensors to capture now in one pass, `*` for all. What is
            read later and was not captured needs another pass.
        head: The head whose outputs are used if the model has several, by default the first
            suitable one.
        edits: Edits that apply to this view only, after those of `model.edit`. A pass checks them
            now.

    Returns:
        The view.
    """
    if head is not None:
        head_with_outputs(model, head)
    names = matching(model.spec, (at,) if isinstance(at, str) else at)
    edits = list(edits)
    inputs = encode_inputs(model, text, target)
    view = View(model, inputs, resolve(model, edits) if edits else None, head)
    if names or edits:  # the pass checks the edits
        view.run_with_cache(names, ignore_missing=True)
    return view
