"""Location of published linear layers in the model.

Files store one layer for each of query, key and value, or one for all, head by head, or transposed.
The families' weight rules describe this. What a rule does to the rows is found by letting it write
a tensor of row numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.adapters.settings import nearest
from glassformer.core import Transformer
from glassformer.core.block import Block
from glassformer.core.linear import Linear
from glassformer.errors import ConfigError
from glassformer.families import find_family
from glassformer.families._shared.weight_rules import WeightMatch, match
from glassformer.spec import RelativePositionSpec
from glassformer.weights.mapping import tied_names
from glassformer.weights.pretrained import PretrainedTransformer


@dataclass(frozen=True, eq=False)
class TargetModule:
    """A published linear layer: the rows `start` to `stop` of one of our linear layers.

    `order` gives for each row of the published layer its index within these rows.
    """

    published: str
    module: str
    linear: Linear
    start: int
    stop: int
    order: Tensor
    transposed: bool

    def local(self, hf: Tensor) -> Tensor:
        """Reorders rows from the file's order to ours."""
        return hf[self.order.argsort()]

    def hf(self, local: Tensor) -> Tensor:
        """Reorders rows from our order to the file's."""
        return local[self.order.to(local.device)]


def matcher(model: PretrainedTransformer) -> Any:
    """Returns a function that finds the published counterparts of our tensor names.

    The function returns None for a tensor without counterparts.
    """
    family = find_family(model.config)
    rules, base = family.weight_rules(model.spec), family.CLASSES[model.architecture]

    def find(name: str) -> WeightMatch | None:
        return match(rules, name, base)

    return find


def fresh_names(model: PretrainedTransformer) -> set[str]:
    """Returns our names of the parameters that were initialized and not read from a file.

    An adapter must train and save them, because otherwise its weights would be loaded together with
    other initial values. Parameters that the family's rules call optional are excluded: they are
    computed, and the same each time.
    """
    made, find = set(model.load_report.made), matcher(model)
    groups = [group for group in tied_names(model) if not made.isdisjoint(group)]
    parameters = dict(model.named_parameters(remove_duplicate=False))
    return {
        name
        for name in (name for group in groups for name in group)
        if name in parameters and not find(name).rule.optional
    }


def find_target_modules(model: PretrainedTransformer) -> dict[str, TargetModule]:
    """Returns all linear layers that can be adapted, by their published names."""
    found: dict[str, TargetModule] = {}
    find, unheard = matcher(model), _only_read(model)
    for name, linear in model.named_modules():
        if not isinstance(linear, Linear) or name in unheard:
            continue
        where = find(f"{name}.weight")
        if where is None:
            continue
        op = where.rule.op
        shapes = op.shapes((linear.out_features, linear.in_features), linear.parts)
        if any(len(shape) != 2 for shape in shapes):
            continue  # in the file it is a bare tensor or a convolution, not a linear layer
        written = op.write(torch.arange(linear.out_features)[:, None], linear.parts)
        for their, rows in zip(where.hf, written, strict=True):
            if not their.endswith(".weight"):
                continue
            published, start = their.removesuffix(".weight"), int(rows.min())
            found[published] = TargetModule(
                published,
                name,
                linear,
                start,
                int(rows.max()) + 1,
                rows.flatten() - start,
                transposed=rows.shape[0] == 1 < linear.out_features,
            )
    return found


def choose(places: Mapping[str, TargetModule], targets: Sequence[str] | None) -> list[TargetModule]:
    """Selects the layers whose published names end with one of the targets.

    None selects all layers in the model's blocks.
    """
    if targets is None:
        return [place for place in places.values() if ".blocks." in place.module]
    for target in targets:
        if not any(ends_with(name, target) for name in places):
            words = {name.rpartition(".")[2] for name in places}
            raise ConfigError(
                f"The model has no linear layer {target!r} to adapt; {nearest(target, words)}"
            )
    return [p for name, p in places.items() if any(ends_with(name, target) for target in targets)]


def ends_with(name: str, end: str) -> bool:
    """Whether `name` ends with `end` at a dot, as peft compares names."""
    return name == end or name.endswith(f".{end}")


def shortest(chosen: Sequence[str], known: Mapping[str, Any]) -> list[str]:
    """Returns the last name parts of the chosen layers if they select no others, else all names."""
    words = sorted({name.rpartition(".")[2] for name in chosen})
    picked = {name for name in known if any(ends_with(name, word) for word in words)}
    return words if picked == set(chosen) else sorted(chosen)


def _only_read(model: Transformer) -> set[str]:
    """Returns layers whose weight is read without calling them, so that hooks have no effect.

    These are the key projections of relative positions.
    """
    return {
        f"{name}.attention.position_key"
        for name, block in model.named_modules()
        if isinstance(block, Block) and isinstance(block.spec.position, RelativePositionSpec)
    }
