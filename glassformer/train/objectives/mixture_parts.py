"""What the parts of a mixture need before they are mixed: a name each, the
labels of its data, and a head on the body that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from torch import nn

from glassformer.errors import GlassformerError
from glassformer.families._shared import heads
from glassformer.loading import extended
from glassformer.model import Model
from glassformer.spec import HeadSpec
from glassformer.train.objectives.labels import find_labels
from glassformer.train.objectives.objective import Record
from glassformer.train.objectives.registry import options_of


def part_names(names: Iterable[str]) -> list[str]:
    """What parts are called by records: classification, classification-2, ..."""
    known: dict[str, None] = {}
    for name in names:
        known[_unlike(name, known)] = None
    return [*known]


def with_part_labels(
    model: Model, parts: Sequence[Mapping[str, Any]], records: Callable[[], Iterable[Record]]
) -> list[dict[str, Any]]:
    """The same parts. Those with labels whose head is yet to be made get the labels of their data;
    where the model has the head, it has the labels."""
    heads = {head.name for head in model.spec.heads}
    found: list[dict[str, Any]] = []
    keys = part_names([str(table.get("name", "")) for table in parts])
    for key, table in zip(keys, map(dict, parts), strict=True):
        name = str(table.get("name", ""))
        known = options_of(name)
        lacks = "labels" in known and table.get("head", known["head"].default) not in heads
        if lacks and not table.get("labels"):
            own = (record for record in records() if record.get("objective", key) == key)
            table["labels"] = find_labels(name, own)
        found.append(table)
    return found


def with_heads(model: Model, parts: Sequence[Mapping[str, Any]], seed: int = 0) -> Model:
    """The same body with a fresh head for every part of a mixture that lacks its own; its dense
    layer starts as that of a head which is there (BERT's pooler). No published class has such
    heads, so the model is saved with its description in the place of a family's config."""
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
                dense: nn.Module = model.net.heads.get_submodule(f"{twin.name}.transform")
                made.net.heads.get_submodule(f"{head.name}.transform").load_state_dict(
                    dense.state_dict()
                )
    return made


def _usual_head(model: Model, kind: str, count: int) -> HeadSpec:
    """BERT's on an encoder, GPT's on a decoder."""
    spec, dropout = model.spec, model.spec.last_stack.embed.dropout
    if kind not in ("classify", "choose", "tag", "span") or (spec.encoder and spec.decoder):
        raise GlassformerError(
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
        head = replace(pooled, name=kind, outputs=count, dropout=dropout)
    return replace(head, outputs=1, choices=True) if kind == "choose" else head


def _unlike(name: str, known: Mapping[str, Any]) -> str:
    """The same objective may stand in a mixture twice, over different heads."""
    names = chain([name], (f"{name}-{number}" for number in range(2, len(known) + 3)))
    return next(one for one in names if one not in known)
