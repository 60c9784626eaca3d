"""A direction from one text to another, which an edit adds to a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.inside.capture.look import look
from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.capture.names import full_name, names_of
from glassformer.inside.intervene.edit import Edit
from glassformer.tasks.model_protocol import TaskModel


def direction(model: TaskModel, at: str, toward: Text, away: Text) -> Tensor:
    """[width]: the mean over tokens of what passes at a name when the model reads `toward`, less
    the same of `away` (Turner et al., 2023)."""
    return mean(model, at, [toward]) - mean(model, at, [away])


def mean(model: TaskModel, at: str, texts: Sequence[Text]) -> Tensor:
    """[width]: over all tokens of some texts, what passes at a name; put in its place, it says what
    the model says on the whole (an ablation by the mean)."""
    name = full_name(model.spec, at)
    if names_of(model.spec).get(name, ())[:1] != ("position",):
        raise GlassformerError(f"One steers a stream, such as blocks.3.resid_post, not {at!r}.")
    if isinstance(texts, str) or not texts:
        raise GlassformerError("The mean is one over a list of texts.")
    return torch.cat([look(model, text, at=name).tap(name).array for text in texts]).mean(0)


def resolved(model: TaskModel, edits: Iterable[Edit | Mapping[str, Any]]) -> list[Edit]:
    """Edits of the kind "steer" ({"at", "toward", "away", "factor", "positions"}) become the
    vectors that they add."""
    return [_resolved(model, edit) for edit in edits]


def _resolved(model: TaskModel, edit: Edit | Mapping[str, Any]) -> Edit:
    if not isinstance(edit, Mapping) or edit.get("kind") != "steer":
        return Edit.of(edit)
    known = ("kind", "at", "toward", "away", "factor", "positions")
    for key in ("at", "toward", "away"):
        if not isinstance(edit.get(key), str):
            raise GlassformerError(f"To steer needs {key!r}, a text.")
    for key in edit:
        if key not in known:
            raise GlassformerError(f"To steer has no {key!r}, only {', '.join(known)}.")
    vector = direction(model, edit["at"], edit["toward"], edit["away"])
    given = {key: edit[key] for key in ("at", "factor", "positions") if key in edit}
    return Edit.of({**given, "kind": "add", "vector": vector.tolist()})
