"""Reads the recipe.toml of a run folder; one of version 0.1 is converted to the present keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.train.data.readers import form_of
from glassformer.train.objectives.registry import objectives, options_of
from glassformer.train.recipe import Recipe, parse_recipe, read_recipe
from glassformer.train.renamed_keys import migrate_options, migrate_table, renamed_key


def read_stored_recipe(path: Path) -> Recipe:
    """Reads the recipe that a run has written to its folder.

    Its paths are relative to the folder. In version 0.1 they were relative to the working directory
    of the run, which must be the present one for such a run to resume.
    """
    tables = parse_recipe(path)
    if any(renamed_key(name, key) for name, table in tables.items() for key in table):
        return read_recipe(_migrated(tables))
    return read_recipe(path)


def _migrated(tables: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, table in tables.items():
        if name != "objective":
            made[name] = migrate_table(name, table)
        elif isinstance(table, list):
            made[name] = [_objective(one, {"weight", "rate"}) for one in table]
        else:
            made[name] = _objective(table, set())
    data = made["data"]
    first = data["train"] if isinstance(data["train"], str) else data["train"][0]
    if data.get("format") == form_of(Path(first)):  # the present default
        del data["format"]
    return made


def _objective(table: Mapping[str, Any], mixed: set[str]) -> dict[str, Any]:
    known = set(options_of(table["name"])) if table.get("name") in objectives() else set()
    migrated = migrate_options(table, known | mixed | {"name"})
    if "task_options" in migrated and migrated.get("task") in objectives():
        inner = set(options_of(migrated["task"]))
        migrated["task_options"] = migrate_options(migrated["task_options"], inner)
    return migrated
