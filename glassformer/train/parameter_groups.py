"""Which parameters learn, how fast by their depth, and which of them decay."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Protocol

import torch
from torch import nn

from glassformer.core import Transformer
from glassformer.errors import GlassformerError


class GroupSettings(Protocol):
    """What is read here of a recipe's [train]."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def layer_decay(self) -> float: ...
    @property
    def unfreeze_every(self) -> int: ...


def layer_depths(net: Transformer) -> list[list[nn.Module]]:
    """A net from its embeddings, over the encoder's layers and then the decoder's, to its heads.
    A layer that is run more than once is one storey."""
    stacks = [stack for stack in (net.encoder, net.decoder) if stack is not None]
    found: list[list[nn.Module]] = [[stack.embed for stack in stacks]]
    for stack in stacks:
        storey = {index: [stack.blocks[index]] for index in stack.spec.order}
        for index, place in enumerate(stack.position_of):
            if place is not None and index in storey:
                storey[index].append(stack.positions[place])
        if hasattr(stack, "tables"):
            for index, table in zip(stack.spec.order[1:], stack.tables, strict=True):
                storey[index].append(table)
        if hasattr(stack, "convolution"):
            storey[stack.spec.order[0]].append(stack.convolution)
        for end in ("final_norm", "project"):
            if hasattr(stack, end):
                storey[stack.spec.order[-1]].append(getattr(stack, end))
        found.extend(storey.values())
    return [*found, [net.heads]]


def depths(task: nn.Module) -> dict[str, int]:
    """The storey of each parameter, by its name; the embeddings' is 0.

    What belongs to several (embeddings that are also the output's weights, a table of positions
    that all layers share) counts as the highest; so do an objective's own weights. Nets of
    different heights are aligned at the top.
    """
    nets = [layer_depths(module) for module in task.modules() if isinstance(module, Transformer)]
    below: dict[nn.Parameter, int] = {}  # how many storeys, from the top
    for net in nets:
        for distance, modules in enumerate(reversed(net)):
            for module in modules:
                for parameter in module.parameters():
                    below.setdefault(parameter, distance)
                    below[parameter] = min(below[parameter], distance)
    top = max(map(len, nets), default=1) - 1
    return {name: top - below.get(parameter, 0) for name, parameter in task.named_parameters()}


def parameter_groups(task: nn.Module, settings: GroupSettings) -> list[dict[str, Any]]:
    """The parameters that learn, by depth and by whether they decay, as optimizers take them.

    Matrices decay, and what else has two or more dimensions (embeddings, too); vectors, which are
    biases and the scales of norms, do not. A group's `share` of the learning rate is
    layer_decay^(storeys above it). Where depth makes no difference, all are taken for the top's:
    the fewer the groups, the faster the step.
    """
    place = depths(task)
    top = max(place.values(), default=0)
    if settings.layer_decay == 1 and not settings.unfreeze_every:
        place = dict.fromkeys(place, top)
    learn = [(name, p) for name, p in task.named_parameters() if p.requires_grad]
    if not learn:
        raise GlassformerError("Nothing is left to train: every parameter is frozen.")
    if not 0 < settings.layer_decay <= 1:
        raise GlassformerError(
            f"layer_decay is a factor above 0 and up to 1, not {settings.layer_decay}."
        )

    def key(named: tuple[str, nn.Parameter]) -> tuple[int, bool]:
        return place[named[0]], named[1].ndim >= 2

    groups = []
    for (depth, decays), members in groupby(sorted(learn, key=key), key):
        share = settings.layer_decay ** (top - depth)
        groups.append(
            {
                "params": list(members),
                "lr": settings.learning_rate * share,
                "weight_decay": settings.weight_decay if decays else 0.0,
                "depth": depth,
                "share": share,
            }
        )
    return groups


def freeze_body(task: nn.Module) -> None:
    """Only the heads, and weights of the objective's own, go on learning."""
    place = depths(task)
    top = max(place.values(), default=0)
    for name, parameter in task.named_parameters():
        if place[name] < top:
            parameter.requires_grad_(False)


def unfreeze(optimizer: torch.optim.Optimizer, settings: GroupSettings, step: int) -> bool:
    """Gradual unfreezing (Howard and Ruder, 2018, 3.3): the highest storey learns from step 0, and
    the next one below it joins every `unfreeze_every` steps; 0 has all learn at once. Says
    whether that changed anything. What was frozen when the optimizer was made stays so."""
    if not settings.unfreeze_every:
        return False
    places = sorted({group["depth"] for group in optimizer.param_groups}, reverse=True)
    learning = places[: 1 + step // settings.unfreeze_every]
    changed = False
    for group in optimizer.param_groups:
        learns = group["depth"] in learning
        for parameter in group["params"]:
            changed |= parameter.requires_grad != learns
            parameter.requires_grad_(learns)
    return changed


def row_blocks(module: nn.Module) -> dict[nn.Parameter, tuple[int, ...]]:
    """The matrices and biases of linear (and recurrent) layers, with the heights of those that are
    joined in each."""
    return dict(_joined(module))


def body_matrices(task: nn.Module) -> dict[nn.Parameter, tuple[int, ...]]:
    """Those within the layers of a net: not of embeddings or heads."""
    found: dict[nn.Parameter, tuple[int, ...]] = {}
    for net in task.modules():
        if isinstance(net, Transformer):
            for stack in (net.encoder, net.decoder):
                if stack is not None:
                    joined = row_blocks(stack.blocks).items()
                    found |= {weight: parts for weight, parts in joined if weight.ndim == 2}
    return found


def _joined(module: nn.Module) -> Iterator[tuple[nn.Parameter, tuple[int, ...]]]:
    for part in module.modules():
        parts = getattr(part, "parts", None)
        if isinstance(parts, tuple):
            for parameter in part.parameters(recurse=False):
                yield parameter, parts
