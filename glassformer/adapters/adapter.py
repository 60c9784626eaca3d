"""An adapter of a model, and switching adapters on and off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from glassformer.adapters.low_rank import BottleneckAdapter, LowRank
from glassformer.adapters.prompt_tuning import PrefixKeys, PromptTokens
from glassformer.adapters.settings import AdapterConfig, nearest
from glassformer.adapters.target_modules import TargetModule
from glassformer.core import Transformer
from glassformer.core.linear import Linear
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError, UnsupportedError

DEFAULT = "default"


class Adapter:
    """The modules and tensors that one adapter adds to a model.

    An adapter can change the computation in three ways: modules added to linear layers
    (`hooked_layers`), a module around a stack (`wrapper`), and its own tensors in place of the
    model's (`own`). While the adapter is off, the model computes as before, although the adapter's
    modules remain registered in it.
    """

    def __init__(self, name: str, settings: AdapterConfig) -> None:
        self.name, self.settings = name, settings
        self.places: dict[str, TargetModule] = {}  # low-rank updates, by published names
        self.parts: dict[str, LowRank | BottleneckAdapter] = {}  # by published names
        self.hooked_layers: list[tuple[Linear, nn.Module]] = []
        self.wrapper: PrefixKeys | PromptTokens | None = None
        self.own: dict[str, nn.Parameter] = {}  # replace the model's parameters, by our names
        self.kept: dict[str, nn.Parameter] = {}  # the model's replaced parameters, by our names
        self.merged: dict[str, Tensor] | None = None  # original rows, by published names
        self.handles: list[torch.utils.hooks.RemovableHandle] = []
        self.on = False

    def parameters(self) -> list[nn.Parameter]:
        """Returns the adapter's parameters, each once."""
        modules = [*self.parts.values(), *([] if self.wrapper is None else [self.wrapper])]
        own = {id(parameter): parameter for parameter in self.own.values()}  # some are tied
        return [*(p for module in modules for p in module.parameters()), *own.values()]

    def turn_on(self, model: Transformer) -> None:
        """Registers the adapter's hooks and puts its own tensors into the model."""
        if self.on:
            return
        self.handles = [linear.register_forward_hook(part) for linear, part in self.hooked_layers]
        if self.wrapper is not None:
            for stack in self.stacks(model):
                if stack.wrapper is not None:
                    raise UnsupportedError("There can be one prefix or prompt at a time.")
                stack.wrapper = self.wrapper
        self._swap(model, self.own)
        self.on = True

    def turn_off(self, model: Transformer) -> None:
        """Undoes `turn_on`."""
        if not self.on:
            return
        for handle in self.handles:
            handle.remove()
        if self.wrapper is not None:
            for stack in self.stacks(model):
                del stack.wrapper
                stack.wrapper = None
        self._swap(model, self.kept)
        self.on = False

    def stacks(self, model: Transformer) -> list[Stack]:
        """Returns the stacks whose forward pass the module `wrapper` changes."""
        if isinstance(self.wrapper, PrefixKeys):
            return [model._last[1]]
        return [stack for stack in (model.encoder, model.decoder) if stack is not None]

    def _swap(self, model: Transformer, tensors: dict[str, nn.Parameter]) -> None:
        for name, tensor in tensors.items():
            module, leaf = owner(model, name)
            module._parameters[leaf] = tensor

    def take_over(self, model: Transformer, names: Sequence[str]) -> None:
        """Creates the adapter's own copies of these parameters of the model.

        Tied parameters stay tied if all of them are taken over.
        """
        copies: dict[int, nn.Parameter] = {}
        for name in names:
            if name not in self.own:
                kept = self.kept[name] = model.get_parameter(name)
                if id(kept) not in copies:
                    copies[id(kept)] = nn.Parameter(kept.detach().clone())
                self.own[name] = copies[id(kept)]

    def give_back(self, model: Transformer, names: Sequence[str]) -> None:
        """Restores the model's own parameters and discards the adapter's copies of them."""
        self._swap(model, {name: self.kept.pop(name) for name in names})
        for name in names:
            del self.own[name]


def owner(model: Transformer, name: str) -> tuple[nn.Module, str]:
    path, _, leaf = name.rpartition(".")
    return model.get_submodule(path), leaf


def adapters_of(model: Transformer) -> dict[str, Adapter]:
    """Returns the adapters of a model by name.

    Args:
        model: The model.
    """
    found: dict[str, Adapter] = model.__dict__.setdefault("_adapters", {})
    return found


def switch(model: Transformer, name: str | None) -> None:
    """Turns one adapter on and all others off.

    Args:
        model: The model.
        name: The adapter to turn on; None turns all adapters off, so that the model computes as
            without them and all its parameters are trainable.
    """
    known = adapters_of(model)
    if name is not None and name not in known:
        there = nearest(name, known) if known else "it has none."
        raise ConfigError(f"The model has no adapter {name!r}; {there}")
    for other, adapter in known.items():
        if adapter.merged is not None:
            raise UnsupportedError(f"The adapter {other!r} is merged; unmerge it first.")
        if other != name:
            adapter.turn_off(model)
    for parameter in model.parameters():
        parameter.requires_grad_(name is None and parameter.is_floating_point())
    if name is not None:
        known[name].turn_on(model)
        for parameter in known[name].parameters():
            parameter.requires_grad_(True)


def remove(model: Transformer, name: str) -> None:
    """Removes an adapter and turns all others off; the whole model becomes trainable again.

    Args:
        model: The model.
        name: The adapter.
    """
    switch(model, name)
    adapter = adapters_of(model)[name]
    switch(model, None)
    for linear, _ in adapter.hooked_layers:
        group = linear.adapters
        assert isinstance(group, nn.ModuleDict)
        del group[name]
        if not group:
            del linear.adapters
    del adapters_of(model)[name]


def active(model: Transformer) -> Adapter | None:
    """Returns the adapter that is on, or None.

    Args:
        model: The model.
    """
    return next((adapter for adapter in adapters_of(model).values() if adapter.on), None)


@contextmanager
def switched_off(model: Transformer) -> Iterator[None]:
    """Turns the active adapter off, and on again at the end.

    Args:
        model: The model.

    Returns:
        A context manager.
    """
    one = active(model)
    if one is not None:
        one.turn_off(model)
    try:
        yield
    finally:
        if one is not None:
            one.turn_on(model)
