"""A model and a text come in, a `View` goes out."""

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
    """One pass. `at` are names or shell patterns of tensors to capture in it, `*` for all; whatever
    else is asked for later costs a pass of its own. `head`: whose outputs are looked at, where the
    model has several; else the first that fits what is asked. `edits` apply to this view alone,
    behind those of `model.edit`."""
    if head is not None:
        head_with_outputs(model, head)
    wanted = matching(model.spec, (at,) if isinstance(at, str) else at)
    edits = list(edits)
    view = View(
        model, read_inputs(model, text, target), resolve(model, edits) if edits else None, head
    )
    view.begin(wanted)
    return view
