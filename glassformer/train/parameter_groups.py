"""Parameter groups: learning rates by depth, weight decay, and freezing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Protocol

import torch
from torch import nn

from glassformer.core import Transformer
from glassformer.errors import ConfigError


class GroupSettings(Protocol):
    """The settings of a recipe's [train] table that are read here."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def layerwise_lr_decay(self) -> float: ...
    @property
    def gradual_unfreezing_steps(self) -> int: ...


def layer_depths(model: Transformer) -> list[list[nn.Module]]:
    """Returns the modules of a network by depth: embeddings, encoder layers, decoder layers, heads.

    A layer that is run more than once counts as one.
    """
    stacks = [stack for stack in (model.encoder, model.decoder) if stack is not None]
    found: list[list[nn.Module]] = [[stack.embed for stack in stacks]]
    for stack in stacks:
        layers = {index: [stack.blocks[index]] for index in stack.spec.order}
        for index, position in enumerate(stack.position_of):
            if position is not None and index in layers:
                layers[index].append(stack.positions[position])
        if hasattr(stack, "tables"):
            for index, table in zip(stack.spec.order[1:], stack.tables, strict=True):
                layers[index].append(table)
        if hasattr(stack, "convolution"):
            layers[stack.spec.order[0]].append(stack.convolution)
        for end in ("final_norm", "project"):
            if hasattr(stack, end):
                layers[stack.spec.order[-1]].append(getattr(stack, end))
        found.extend(layers.values())
    return [*found, [model.heads]]


def depths(root: nn.Module) -> dict[str, int]:
    """Returns the depth of each parameter by name; that of the embeddings is 0.

    A parameter that belongs to several depths (embeddings tied to the output, a position table
    shared by all layers) counts as the deepest; so do the objective's own weights. Networks with
    different numbers of layers are aligned at the top.
    """
    depths = [layer_depths(module) for module in root.modules() if isinstance(module, Transformer)]
    below: dict[nn.Parameter, int] = {}  # distance from the top
    for layers in depths:
        for distance, modules in enumerate(reversed(layers)):
            for module in modules:
                for parameter in module.parameters():
                    below.setdefault(parameter, distance)
                    below[parameter] = min(below[parameter], distance)
    top = max(map(len, depths), default=1) - 1
    return {name: top - below.get(parameter, 0) for name, parameter in root.named_parameters()}


def parameter_groups(module: nn.Module, settings: GroupSettings) -> list[dict[str, Any]]:
    """Returns the trainable parameters as optimizer groups, by depth and by weight decay.

    Matrices and other parameters with two or more dimensions, including embeddings, decay; vectors,
    that is, biases and the scales of norms, do not. A group's `share` of the learning rate is
    layerwise_lr_decay^(number of depths above it). If depth makes no difference, all parameters are
    assigned to the top, because fewer groups make a faster step.
    """
    depth_of = depths(module)
    top = max(depth_of.values(), default=0)
    if settings.layerwise_lr_decay == 1 and not settings.gradual_unfreezing_steps:
        depth_of = dict.fromkeys(depth_of, top)
    trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    if not trained:
        raise ConfigError("Nothing is left to train: every parameter is frozen.")
    if not 0 < settings.layerwise_lr_decay <= 1:
        raise ConfigError(
            "layerwise_lr_decay is a factor above 0 and up to 1, not "
            f"{settings.layerwise_lr_decay}."
        )

    def key(named: tuple[str, nn.Parameter]) -> tuple[int, bool]:
        return depth_of[named[0]], named[1].ndim >= 2

    groups = []
    for (depth, decays), members in groupby(sorted(trained, key=key), key):
        share = settings.layerwise_lr_decay ** (top - depth)
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


def freeze_base(module: nn.Module) -> None:
    """Freezes everything except the heads and the objective's own weights."""
    depth_of = depths(module)
    top = max(depth_of.values(), default=0)
    for name, parameter in module.named_parameters():
        if depth_of[name] < top:
            parameter.requires_grad_(False)


def unfreeze(optimizer: torch.optim.Optimizer, settings: GroupSettings, step: int) -> bool:
    """Applies gradual unfreezing (Howard and Ruder, 2018, 3.3).

    The top depth is trained from step 0, and the next one below joins every
    `gradual_unfreezing_steps` steps; with 0, all are trained from the start. Parameters that were
    frozen when the optimizer was created stay frozen.

    Returns:
        Whether any parameter changed.
    """
    if not settings.gradual_unfreezing_steps:
        return False
    all_depths = sorted({group["depth"] for group in optimizer.param_groups}, reverse=True)
    unfrozen = all_depths[: 1 + step // settings.gradual_unfreezing_steps]
    changed = False
    for group in optimizer.param_groups:
        trainable = group["depth"] in unfrozen
        for parameter in group["params"]:
            changed |= parameter.requires_grad != trainable
            parameter.requires_grad_(trainable)
    return changed


def row_blocks(module: nn.Module) -> dict[nn.Parameter, tuple[int, ...]]:
    """Returns the weights and biases of linear and recurrent layers with their row blocks.

    The row blocks are the heights of the matrices that are concatenated in each.
    """
    return dict(_joined(module))


def body_matrices(module: nn.Module) -> dict[nn.Parameter, tuple[int, ...]]:
    """Returns the matrices inside the layers of a network, without embeddings and heads."""
    found: dict[nn.Parameter, tuple[int, ...]] = {}
    for model in module.modules():
        if isinstance(model, Transformer):
            for stack in (model.encoder, model.decoder):
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
