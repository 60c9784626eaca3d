"""Train room: a recipe comes in, a trained model goes out, in a folder that tells how.

The room itself can be called: `gf.train("recipe.toml")` is `train.start.train`. (As a function of
that name beside it, it would be hidden by the room as soon as a module of it is imported.)
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *words: Any, **named: Any) -> Any:
        from glassformer.train.trainer import train

        return train(*words, **named)


sys.modules[__name__].__class__ = _Room
