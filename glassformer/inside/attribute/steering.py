"""Steering vectors, which an edit adds to the residual stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError
from glassformer.inside.capture.look import look
from glassformer.inside.capture.model_inputs import Text
from glassformer.inside.capture.names import full_name, names_of
from glassformer.inside.intervene.edit import Edit
from glassformer.tasks.model_protocol import TaskModel


def direction(model: TaskModel, at: str, toward: Text, away: Text) -> Tensor:
    """Computes a steering vector (Turner et al., 2023).

    Args:
        model: The model.
        at: The hook point name, such as `blocks.3.resid_post`.
        toward: The text to steer toward.
        away: The text to steer away from.

    Returns:
        [width]: the mean activation over the tokens of `toward` minus that of `away`.
    """
    return mean(model, at, [toward]) - mean(model, at, [away])


def mean(model: TaskModel, at: str, texts: Sequence[Text]) -> Tensor:
    """Computes the mean activation over all tokens of some texts, for use in mean ablation.

    Args:
        model: The model.
        at: The hook point name, such as `blocks.3.resid_post`.
        texts: The texts.

    Returns:
        [width]
    """
    name = full_name(model.spec, at)
    if names_of(model.spec).get(name, ())[:1] != ("position",):
        raise ConfigError(
            "A steering vector is added to a residual stream, such as blocks.3.resid_post, not "
            f"to {at!r}."
        )
    if isinstance(texts, str) or not texts:
        raise InputError("`texts` must be a list of texts with at least one text.")
    return torch.cat([look(model, text, at=name).tap(name).array for text in texts]).mean(0)


def resolved(model: TaskModel, edits: Iterable[Edit | Mapping[str, Any]]) -> list[Edit]:
    """Converts edits of the kind "steer" to edits that add the steering vector.

    A "steer" edit has the keys "at", "toward", "away", "factor" and "positions".
    """
    return [_resolved(model, edit) for edit in edits]


def _resolved(model: TaskModel, edit: Edit | Mapping[str, Any]) -> Edit:
    if not isinstance(edit, Mapping) or edit.get("kind") != "steer":
        return Edit.of(edit)
    known = ("kind", "at", "toward", "away", "factor", "positions")
    for key in ("at", "toward", "away"):
        if not isinstance(edit.get(key), str):
            raise ConfigError(f"An edit of the kind 'steer' needs {key!r}, a text.")
    for key in edit:
        if key not in known:
            raise ConfigError(
                f"An edit of the kind 'steer' has no {key!r}, only {', '.join(known)}."
            )
    vector = direction(model, edit["at"], edit["toward"], edit["away"])
    given = {key: edit[key] for key in ("at", "factor", "positions") if key in edit}
    return Edit.of({**given, "kind": "add", "vector": vector.tolist()})
