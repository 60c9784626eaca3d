"""Reads the recipe.toml of a run folder; one of version 0.1 is converted to the present keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.data.readers import form_of
from glassformer.train.objectives.registry import objective_names, options_of
from glassformer.train.optimizers import OPTIMIZERS
from glassformer.train.recipe import Recipe, parse_recipe, read_recipe
from glassformer.train.recipe_paths import resolve_paths
from glassformer.train.renamed_keys import migrate_options, migrate_table, renamed_key

OLD_OPTIONS = ("betas", "eps", "momentum")  # which version 0.1 stored for every optimizer


def read_stored_recipe(path: Path) -> Recipe:
    """Reads the recipe that a run has written to its folder.

    Its paths are relative to the folder. In version 0.1 they were relative to the working directory
    of the run, which must be the present one for such a run to resume.
    """
    tables = parse_recipe(path)
    tables = _migrated(tables) if _is_older(tables) else resolve_paths(tables, path.parent)
    return read_recipe(_with_own_options(tables))


def _is_older(tables: Mapping[str, Any]) -> bool:
    """Returns whether a recipe has the keys of version 0.1, and its tables are tables."""
    objective, others = tables.get("objective", {}), [n for n in tables if n != "objective"]
    listed = objective if isinstance(objective, list) else [objective]
    if not all(isinstance(one, Mapping) for one in [*listed, *(tables[name] for name in others)]):
        return False
    return any(renamed_key(name, key) for name in others for key in tables[name])


def _with_own_options(tables: dict[str, Any]) -> dict[str, Any]:
    """Leaves out options that only other optimizers have."""
    train = tables.get("train", {})
    if not isinstance(train, dict) or not isinstance(train.get("optimizer"), str):
        return tables
    own = OPTIMIZERS.find(train["optimizer"]).__dataclass_fields__
    kept = {key: value for key, value in train.items() if key in own or key not in OLD_OPTIONS}
    return {**tables, "train": kept}


def _migrated(tables: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, table in tables.items():
        if name != "objective":
            made[name] = migrate_table(name, table)
        elif isinstance(table, list):
            made[name] = [_objective(one, {"weight", "rate"}) for one in table]
        else:
            made[name] = _objective(table, set())
    data = made.get("data", {})
    train = data.get("train")
    first = train[0] if isinstance(train, list) and train else train
    if isinstance(first, str) and data.get("format") == form_of(Path(first)):  # the present default
        del data["format"]
    return made


def _objective(table: Mapping[str, Any], mixed: set[str]) -> dict[str, Any]:
    known = set(options_of(table["name"])) if table.get("name") in objective_names() else set()
    migrated = migrate_options(table, known | mixed | {"name"})
    if "task_options" in migrated and migrated.get("task") in objective_names():
        inner = set(options_of(migrated["task"]))
        migrated["task_options"] = migrate_options(migrated["task_options"], inner)
    return migrated
