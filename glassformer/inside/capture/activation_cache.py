"""Activations captured in forward passes over one text."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from glassformer.inside.capture.model_inputs import ModelInputs
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.capture.names import names_of
from glassformer.inside.intervene.edit import own_part
from glassformer.spec import ModelSpec


class ActivationCache(dict[str, Tensor]):
    """Captured tensors by hook point name, each [1, ...].

    Tokens that an adapter prepends are removed, except from keys and values.
    """

    def __init__(self, spec: ModelSpec, model_inputs: ModelInputs) -> None:
        super().__init__()
        self.axes, self.model_inputs = names_of(spec), model_inputs

    def add(self, activations: Mapping[str, Tensor]) -> None:
        for name, tensor in activations.items():
            axes = self.axes[name]
            if "key head" in axes:  # all keys are kept, because patterns have all of them
                self[name] = tensor
            else:
                self[name] = own_part(name, axes, tensor, self.model_inputs)

    def named(self, name: str) -> NamedTensor:
        """Returns a tensor with its axes, labeled by the tokens."""
        array, axes = self[name][0], self.axes[name]
        stack, _, inner = name.partition(".")
        queries, keys = self.model_inputs.tokens_along(name)
        tokens = {"position": queries, "query": queries, "key": keys}
        labels = {}
        for axis, size in zip(axes, array.shape, strict=True):
            if axis in tokens:  # preceded by an empty memory or adapter tokens
                texts = [token.text for token in tokens[axis]]
                labels[axis] = [*["·"] * (size - len(texts)), *texts][-size:]
        return NamedTensor(array, axes, labels, f"{stack} {inner}")
