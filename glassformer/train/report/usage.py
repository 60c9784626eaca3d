"""Example code for the model card that loads a trained model and uses it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from glassformer.train.objectives.registry import find_objective
from glassformer.train.objectives.usage_example import UsageExample, quoted
from glassformer.train.recipe import Recipe
from glassformer.train.report.summary import RunSummary


def use(run: RunSummary) -> Iterator[str]:
    """Yields the lines of the usage section."""
    kept = "best" if run.best() is not None else "model"
    folder, example = f"{run.run.folder}/{kept}", example_of(run.recipe)
    yield "\n## Use\n\nIn the folder in which `glassformer train` was called:\n"
    yield "```python\nimport glassformer as gf\n"
    yield f"model = gf.load({quoted(folder)})"
    yield f"{'print(model)' if example is None else example.python()}\n```\n"
    inspect = f"glassformer inspect {shlex.quote(folder)}"
    yield f"```sh\n{inspect if example is None else example.words(folder)}\n```"


def example_of(recipe: Recipe) -> UsageExample | None:
    """Returns the example for a recipe; None if its objectives are not a single task on text."""
    if len(recipe.objective) > 1 or recipe.data.format == "tokens":
        return None
    (one,) = recipe.objective
    if any(one.options.get(key) for key in ("source_language", "target_language")):
        return None
    task = one.options.get("task") if one.name == "distillation" else one.name
    return find_objective(task).usage if isinstance(task, str) else None
