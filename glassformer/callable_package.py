"""Packages that can be called like the function that they are named after."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


class CallablePackage(ModuleType):
    """A package `name` whose call is the function `name` of one of its modules.

    `gf.train(...)` has to be a call of the package: Python sets the attribute `train` of
    `glassformer` to the package as soon as one of its modules is imported.
    """

    function: tuple[str, str]

    def __call__(self, *args: object, **kwargs: object) -> object:
        module, name = self.function
        found: object = getattr(import_module(module), name)(*args, **kwargs)
        return found


def make_callable(package: str, module: str, name: str) -> None:
    """Makes a package call the function `name` of `module`, imported at the first call."""
    found = sys.modules[package]
    found.__class__ = CallablePackage
    vars(found)["function"] = (module, name)
