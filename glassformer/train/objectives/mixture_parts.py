"""Preparation of the parts of a mixture: names, labels and heads on the shared body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from torch import nn

from glassformer.creation import extended
from glassformer.data.record import Record
from glassformer.errors import UnsupportedError
from glassformer.families._shared import heads
from glassformer.model import Model
from glassformer.spec import HeadSpec
from glassformer.train.objectives.labels import find_labels
from glassformer.train.objectives.registry import options_of


def part_names(names: Iterable[str]) -> list[str]:
    """Returns the names of parts in records: classification, classification-2, ..."""
    known: dict[str, None] = {}
    for name in names:
        known[_unlike(name, known)] = None
    return [*known]


def with_part_labels(
    model: Model,
    parts: Sequence[Mapping[str, Any]],
    records: Callable[[], Iterable[Record]],
    *,
    skip: bool = False,
) -> list[dict[str, Any]]:
    """Returns the parts; those whose head has yet to be created get the labels of their data.

    If the model has the head already, it has the labels.

    Args:
        model: The model.
        parts: The tables of the parts.
        records: Returns the records of the data.
        skip: Whether to leave out records whose labels are invalid.
    """
    heads = {head.name for head in model.spec.heads}
    found: list[dict[str, Any]] = []
    keys = part_names([str(table.get("name", "")) for table in parts])
    for key, table in zip(keys, map(dict, parts), strict=True):
        name = str(table.get("name", ""))
        known = options_of(name)
        lacks = "labels" in known and table.get("head", known["head"].default) not in heads
        if lacks and not table.get("labels"):
            own = (record for record in records() if record.get("objective", key) == key)
            table["labels"] = find_labels(
                name, own, skip=skip, multi_label=bool(table.get("multi_label"))
            )
        found.append(table)
    return found


def with_heads(model: Model, parts: Sequence[Mapping[str, Any]], seed: int = 0) -> Model:
    """Returns the model with a new head for every part of a mixture that lacks its own.

    The dense layer of a new head is initialized from an existing head with the same one (BERT's
    pooler). No published class has such heads, so the model is saved with its spec instead of a
    family's config.

    Args:
        model: The model.
        parts: The tables of the parts.
        seed: Seed of the initialization.
    """
    known = {head.name for head in model.spec.heads}
    fresh: list[HeadSpec] = []
    for table in parts:
        argument = options_of(str(table.get("name", ""))).get("head")
        if argument is None:
            continue
        name = str(table.get("head", argument.default))
        if name not in known:
            known.add(name)
            labeled = "labels" in options_of(str(table["name"]))
            count = len(table.get("labels") or model.spec.labels) if labeled else 1
            fresh.append(replace(_usual_head(model, argument.default, count), name=name))
    if not fresh:
        return model
    described = replace(model.spec, heads=(*model.spec.heads, *fresh))
    made = extended(model, described, seed)
    for head in fresh:
        for twin in model.spec.heads:
            if twin.transform is not None and twin.transform == head.transform:
                dense: nn.Module = model.heads.get_submodule(f"{twin.name}.transform")
                made.heads.get_submodule(f"{head.name}.transform").load_state_dict(
                    dense.state_dict()
                )
    return made


def _usual_head(model: Model, kind: str, count: int) -> HeadSpec:
    """Returns BERT's head for an encoder, GPT's for a decoder."""
    spec, dropout = model.spec, model.spec.last_stack.embed.dropout
    if kind not in ("classify", "choose", "tag", "span") or (spec.encoder and spec.decoder):
        raise UnsupportedError(
            f"{model.architecture} has no head {kind!r}, and none can be put on it; choose a class "
            "that has one."
        )
    if kind == "span":
        return heads.span()
    if kind == "tag":
        return heads.tag(count, dropout)
    head = heads.classify_last(count)
    if spec.decoder is None:
        pooled = heads.pooler(spec.last_stack.out_width)
        head = replace(pooled, name=kind, num_outputs=count, dropout=dropout)
    return replace(head, num_outputs=1, multiple_choice=True) if kind == "choose" else head


def _unlike(name: str, known: Mapping[str, Any]) -> str:
    """Returns a new name; the same objective may occur twice in a mixture, with different heads."""
    names = chain([name], (f"{name}-{number}" for number in range(2, len(known) + 3)))
    return next(one for one in names if one not in known)
