"""Mapping between the tensors of a model and the tensors of a checkpoint.

Config and files are compared before any tensor is read. Any difference that was not requested is
an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.core import Transformer
from glassformer.core.linear import Linear
from glassformer.errors import ConfigError, LoadError
from glassformer.families import Family, find_family, spec_from_config
from glassformer.families._shared.weight_rules import WeightMatch, WeightRule, match
from glassformer.spec import ModelSpec
from glassformer.weights.tensor_files import TensorFiles

COMPUTED = 10**6
"""How many more numbers a computed table may have than the files of a model."""


@dataclass
class TensorSource:
    """One tensor of the model, and where the files hold it."""

    name: str
    followers: list[str]  # further names of the same tensor, if it is tied
    expected: WeightMatch  # the file tensors it should come from
    found: WeightMatch | None  # the file tensors it comes from; None if they are missing
    copies: list[WeightMatch]  # further file tensors that hold the same values


@dataclass
class LoadPlan:
    """A model on the meta device, and the sources of all its tensors."""

    transformer: Transformer
    config: Mapping[str, Any]
    family: Family
    files: TensorFiles
    base: str
    sources: list[TensorSource]

    def unused(self) -> list[str]:
        """Returns the file tensors that the model does not use."""
        used = {
            their
            for source in self.sources
            for place in (source.found, *source.copies)
            if place is not None
            for their in place.hf
        }
        return [name for name in self.files if name not in used]

    def missing(self) -> list[TensorSource]:
        """Returns the required tensors that the files lack."""
        return [s for s in self.sources if s.found is None and not s.expected.rule.optional]


def build_transformer(spec: ModelSpec) -> Transformer:
    """Builds a model on the meta device; its tensors are assigned one at a time."""
    try:
        with torch.device("meta"):
            return Transformer(spec).eval()
    except (RuntimeError, OverflowError) as error:  # sizes are checked one by one
        why = str(error).splitlines()[0]
        raise ConfigError(f"A model of these sizes cannot be built ({why:.200}).") from None


def make_load_plan(config: Mapping[str, Any], architecture: str, files: TensorFiles) -> LoadPlan:
    """Matches the tensors of the class `architecture` with those in the files.

    Ties that `spec.optional_ties` lists are dissolved if the files hold different values for the
    tied tensors.
    """
    family = find_family(config)
    spec = spec_from_config(config, architecture)
    check_size(spec, files)
    model = build_transformer(spec)
    files, base = find_base(family, architecture, model, files)
    plan = _plan(model, config, family, files, base)
    loose = {
        follower
        for source in plan.sources
        for follower in source.followers
        if follower in spec.optional_ties
        and any(not equal(source, c, files) for c in source.copies)
    }
    if loose:
        tie = tuple(pair for pair in spec.tied_weights if pair[1] not in loose)
        plan = _plan(
            build_transformer(replace(spec, tied_weights=tie)), config, family, files, base
        )
    return plan


def check_size(spec: ModelSpec, files: TensorFiles) -> None:
    """Raises an error if config.json describes a model that is much larger than the files.

    A missing tensor is found by the names of the model's tensors, which takes memory for every
    layer; and tables that are computed are in no file.
    """
    stacks = [stack for stack in (spec.encoder, spec.decoder) if stack is not None]
    layers, tensors = sum(len(stack.blocks) for stack in stacks), len(list(files))
    if layers > tensors:
        raise LoadError(
            f"By config.json the model has {layers:,} layers, and the files hold {tensors:,} "
            "tensors; one of the two is not this model's."
        )
    stored = sum(math.prod(files.shape(name)) for name in files)
    for stack in stacks:
        table = stack.embed.position
        if table is None or table.layout == "learned":
            continue
        numbers = (table.length + table.offset) * stack.width
        if numbers > COMPUTED + stored:
            raise LoadError(
                f"By config.json the model has {table.length:,} positions, a table of {numbers:,} "
                f"numbers, and the files hold {stored:,}; one of the two is not this model's."
            )


def _plan(
    model: Transformer, config: Mapping[str, Any], family: Family, files: TensorFiles, base: str
) -> LoadPlan:
    sources = list(find_sources(model, family.weight_rules(model.spec), files, base))
    return LoadPlan(model, config, family, files, base, sources)


def find_base(
    family: Family, architecture: str, model: Transformer, files: TensorFiles
) -> tuple[TensorFiles, str]:
    """Finds the prefix of the model body's tensor names.

    The body may have another prefix than its class writes, and all tensors may have the prefix of a
    module that wrapped the model during training.

    Returns:
        The files, without the wrapper's prefix, and the prefix of the body.
    """
    own = family.CLASSES[architecture]
    first = next(iter(model.state_dict()))  # a tensor of the embedding
    places = [
        (base, their)
        for base in dict.fromkeys((own, *family.CLASSES.values(), ""))
        for found in [matched(family.weight_rules(model.spec), first, base)]
        for their in (*found.hf, *found.also)
    ]
    for base, their in places:
        if their in files:
            return files, base
    for base, their in sorted(places, key=lambda place: -len(place[0])):
        holders = [name.removesuffix(their) for name in files if name.endswith(f".{their}")]
        if len(holders) == 1:
            return files.inside(holders[0]), base
    return files, own


def find_sources(
    model: Transformer, rules: Sequence[WeightRule], files: TensorFiles, base: str
) -> Iterator[TensorSource]:
    """Yields the source of each tensor of the model; tied tensors count as one."""
    for names in tied_names(model):
        matches = [matched(rules, name, base) for name in names]
        places = [
            option
            for found in matches
            for option in (found, *(replace(found, hf=(also,)) for also in found.also))
        ]
        named = [place for place in places if place.hf]  # a computed table has none
        present = [place for place in named if all(their in files for their in place.hf)]
        distinct = list({place.hf: place for place in present}.values())
        found = distinct[0] if distinct else None
        yield TensorSource(names[0], names[1:], matches[0], found, distinct[1:])


def matched(rules: Sequence[WeightRule], name: str, base: str) -> WeightMatch:
    """Like `match`, for names that are known to have a rule."""
    found = match(rules, name, base)
    assert found is not None, f"no rule for {name}"
    return found


ADDED = {"adapters", "wrapper"}  # submodules with adapter tensors, not the model's own


def tied_names(model: Transformer) -> list[list[str]]:
    """Returns the names of each distinct tensor; the name that a tie keeps comes first."""
    kept = {name for name, _ in model.spec.tied_weights}
    groups: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if ADDED.isdisjoint(name.split(".")):
            groups.setdefault(id(tensor), []).append(name)
    return [sorted(names, key=lambda name: name not in kept) for names in groups.values()]


def parts_of(model: Transformer, name: str) -> tuple[int, ...]:
    """Returns the heights of the row blocks of a joined tensor; empty for other tensors."""
    owner, _, leaf = name.rpartition(".")
    module = model.get_submodule(owner)
    if not isinstance(module, Linear):
        return ()
    kept = module.biased if leaf == "bias" else (True,) * len(module.parts)
    return tuple(rows for rows, has in zip(module.parts, kept, strict=True) if has)


def check_shapes(plan: LoadPlan) -> None:
    """Raises an error if a file tensor does not have the shape that config.json implies."""
    local: dict[str, Tensor] = plan.transformer.state_dict()
    wrong: dict[str, tuple[int, ...]] = {}  # the shape by config.json
    for source in plan.sources:
        for place in (source.found, *source.copies):
            if place is None:
                continue
            parts = parts_of(plan.transformer, source.name)
            shapes = place.rule.op.shapes(tuple(local[source.name].shape), parts)
            for their, shape in zip(place.hf, shapes, strict=True):
                if plan.files.shape(their) != shape:
                    wrong.setdefault(their, shape)
    for their, shape in wrong.items():
        raise LoadError(
            f"{their} has the shape {list(plan.files.shape(their))} in the file and "
            f"{list(shape)} by config.json; one of the two is not this model's.",
            mismatched=tuple(wrong),
        )


def check_copies(plan: LoadPlan) -> None:
    """Raises an error if file tensors that are tied by config.json differ."""
    for source in plan.sources:
        for copy in source.copies:
            if source.found is not None and not equal(source, copy, plan.files):
                raise LoadError(
                    f"{source.found.hf[0]} and {copy.hf[0]} differ in the file, and by "
                    "config.json they are one; set tie_word_embeddings to false if they are not."
                )


def equal(source: TensorSource, copy: WeightMatch, files: TensorFiles) -> bool:
    """Whether `copy` holds the same values as the tensor at `source.found`."""
    assert source.found is not None
    mine, other = (
        place.rule.op.read([files.read(their, mapped=True) for their in place.hf])
        for place in (source.found, copy)
    )
    return mine.shape == other.shape and torch.equal(mine, other)
