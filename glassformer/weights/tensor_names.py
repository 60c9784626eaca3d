"""Translation of tensor names in a file to the published names.

Old libraries and training wrappers use other names for the same tensors. This module handles these
names for every file format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor

WRAPPERS = {  # wrapper modules that do not change the computation
    "_orig_mod",  # torch.compile
    "_fsdp_wrapped_module",
    "_checkpoint_wrapped_module",
}
ENDINGS = {"gamma": "weight", "beta": "bias"}  # old names of norm parameters
NORMED = {  # weight normalization: length and direction, as torch.nn.utils names them
    "weight_g": ("weight_v", "weight"),
    "parametrizations.weight.original0": ("parametrizations.weight.original1", "weight"),
}


def published_names(names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Maps each published name to its name in the file.

    Returns:
        Published name -> one name in the file, or two (length and direction) for a weight with
        weight normalization.
    """
    found = _renamed({name: (name,) for name in names}, _modern)
    for first, (second, whole) in NORMED.items():
        for name in [name for name in found if name.endswith(f".{first}")]:
            owner = name.removesuffix(first)
            if owner + second in found and owner + whole not in found:
                found[owner + whole] = (*found.pop(name), *found.pop(owner + second))
    return found


def inside(prefix: str, found: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Removes the prefix of a module that wraps the model from the names."""
    return _renamed(found, lambda name: name.removeprefix(prefix))


def whole_weight(length: Tensor, direction: Tensor) -> Tensor:
    """Combines length and direction of weight normalization.

    Salimans and Kingma (2016), equation 2. `length` has size 1 along the axes of the norm.
    """
    axes = [a for a in range(direction.ndim) if not length.ndim or length.shape[a] == 1]
    norm: Tensor = torch.linalg.vector_norm(direction, dim=axes, keepdim=True)
    return length * direction / norm


def _modern(name: str) -> str:
    """Removes wrapper modules and replaces outdated endings."""
    parts = [part for part in name.split(".") if part not in WRAPPERS]
    return ".".join((*parts[:-1], ENDINGS.get(parts[-1], parts[-1])))


def _renamed(
    found: Mapping[str, tuple[str, ...]], change: Callable[[str], str]
) -> dict[str, tuple[str, ...]]:
    """Renames tensors; a name stays unchanged if another tensor already has the new one."""
    changed: dict[str, tuple[str, ...]] = {}
    for name, files in found.items():
        new = change(name)
        changed[name if new in found or new in changed else new] = files
    return changed
