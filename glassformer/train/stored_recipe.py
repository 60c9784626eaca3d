"""Reads the recipe of a run folder, also one of version 0.1."""

from __future__ import annotations

from pathlib import Path

from glassformer.train.optimizers import OPTIMIZERS
from glassformer.train.recipe import Recipe, parse_recipe, read_recipe

OLD_OPTIONS = ("betas", "eps", "momentum")  # which version 0.1 stored for every optimizer


def read_stored_recipe(path: Path) -> Recipe:
    """Reads the recipe that a run has written to its folder.

    Options that only other optimizers have are left out: version 0.1 stored those, too.
    """
    tables = parse_recipe(path)
    train = tables.get("train", {})
    if isinstance(train, dict) and "optimizer" in train:
        own = OPTIMIZERS.find(train["optimizer"]).__dataclass_fields__
        tables["train"] = {k: v for k, v in train.items() if k in own or k not in OLD_OPTIONS}
    return read_recipe(tables)
