"""From a file's tensor names to the published ones. Old libraries and training
wrappers write other names for the same tensors; this is the one place that knows them, for every
kind of file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor

WRAPPERS = {  # modules that stand around another and compute the same
    "_orig_mod",  # torch.compile
    "_fsdp_wrapped_module",
    "_checkpoint_wrapped_module",
}
ENDINGS = {"gamma": "weight", "beta": "bias"}  # a norm's, in the first checkpoints
NORMED = {  # a weight in two parts, length and direction, as torch.nn.utils writes them
    "weight_g": ("weight_v", "weight"),
    "parametrizations.weight.original0": ("parametrizations.weight.original1", "weight"),
}


def published_names(names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Published name -> the file's name, or the two names of a weight that is kept in two parts."""
    found = _renamed({name: (name,) for name in names}, _modern)
    for first, (second, whole) in NORMED.items():
        for name in [name for name in found if name.endswith(f".{first}")]:
            owner = name.removesuffix(first)
            if owner + second in found and owner + whole not in found:
                found[owner + whole] = (*found.pop(name), *found.pop(owner + second))
    return found


def inside(prefix: str, found: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The names without the prefix of a module that holds the model."""
    return _renamed(found, lambda name: name.removeprefix(prefix))


def whole_weight(length: Tensor, direction: Tensor) -> Tensor:
    """Salimans and Kingma (2016), equation 2. The length has size 1 along the axes of the norm."""
    axes = [a for a in range(direction.ndim) if not length.ndim or length.shape[a] == 1]
    norm: Tensor = torch.linalg.vector_norm(direction, dim=axes, keepdim=True)
    return length * direction / norm


def _modern(name: str) -> str:
    parts = [part for part in name.split(".") if part not in WRAPPERS]
    return ".".join((*parts[:-1], ENDINGS.get(parts[-1], parts[-1])))


def _renamed(
    found: Mapping[str, tuple[str, ...]], change: Callable[[str], str]
) -> dict[str, tuple[str, ...]]:
    """A name stays as it is where another tensor already has the new one."""
    changed: dict[str, tuple[str, ...]] = {}
    for name, files in found.items():
        new = change(name)
        changed[name if new in found or new in changed else new] = files
    return changed
