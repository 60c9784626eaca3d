"""Versions of tensors and of whole models, to detect that something derived from them is stale."""

from __future__ import annotations

import torch
from torch import Tensor, nn

SIMPLE = (float, int, str)


class TensorVersion:
    """Remembers the version of weights, to detect whether they have changed since."""

    def __init__(self, *weights: Tensor) -> None:
        # keeps references, so that no other weight is allocated at the same address
        self.versions = [(weight.detach(), weight._version) for weight in weights]

    def matches(self, *weights: Tensor) -> bool:
        """Whether these are the same tensors, unchanged."""
        return all(
            weight.data_ptr() == seen.data_ptr() and weight._version == version
            for weight, (seen, version) in zip(weights, self.versions, strict=True)
        )


class ModelVersion:
    """State of a model, to detect when it has changed."""

    def __init__(self, model: nn.Module) -> None:
        tensors, self.settings = _walk_tensors(model)
        self.tensors = TensorVersion(*tensors)

    def matches(self, model: nn.Module) -> bool:
        tensors, settings = _walk_tensors(model)
        return (
            self.settings == settings
            and len(tensors) == len(self.tensors.versions)
            and self.tensors.matches(*tensors)
        )

    def only_moved(self, model: nn.Module) -> bool:
        """Returns whether all values are unchanged, even if their storage moved.

        The first generation moves weights to where its kernels read them best.
        """
        tensors, settings = _walk_tensors(model)
        versions = self.tensors.versions
        return (
            self.settings == settings
            and len(tensors) == len(versions)
            and all(
                tensor._version == version
                and (tensor.data_ptr() == was.data_ptr() or torch.equal(tensor, was))
                for tensor, (was, version) in zip(tensors, versions, strict=True)
            )
        )


def _walk_tensors(model: nn.Module) -> tuple[list[Tensor], list[tuple[object, ...]]]:
    """Returns the model's tensors, and for each module its settings and hooks.

    A setting may be an adapter's scale; the ids of hooks are never reused. This runs on every call,
    and `model.modules` would take twice as long.
    """
    tensors: list[Tensor | None] = []
    settings: list[tuple[object, ...]] = []
    waiting: list[nn.Module | None] = [model]
    while waiting:
        module = waiting.pop()
        if module is None:
            continue
        tensors += module._parameters.values()
        tensors += module._buffers.values()
        simple = [value for value in vars(module).values() if isinstance(value, SIMPLE)]
        hooks = *module._forward_hooks, *module._forward_pre_hooks
        settings.append((id(module), *simple, *hooks))
        waiting += module._modules.values()
    return [tensor for tensor in tensors if tensor is not None], settings
