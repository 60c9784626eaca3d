"""Builds the objective of a recipe, with the labels, heads and adapter that it needs."""

from __future__ import annotations

from dataclasses import replace

from glassformer import adapters
from glassformer.creation import extended
from glassformer.data import Records
from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.train.objectives import Objective, make_objective
from glassformer.train.objectives.labels import find_labels
from glassformer.train.objectives.mixture_parts import part_names, with_heads, with_part_labels
from glassformer.train.objectives.registry import find_objective
from glassformer.train.recipe import ObjectiveSettings, Recipe


def with_labels(recipe: Recipe) -> Recipe:
    """Returns the recipe with the labels of a head that has to be created.

    They are the labels that the objective lists, or else those found in its data, with the records
    that are held out; with several objectives, those of the first one that has any.
    """
    fresh = recipe.model.preset is not None or recipe.model.init_missing
    if recipe.model.labels or not fresh:
        return recipe
    files = replace(recipe.data, validation=()) if recipe.data.held_out else recipe.data
    keys = part_names(one.name for one in recipe.objective)
    for key, one in zip(keys, recipe.objective, strict=True):
        task = one.options.get("task", one.name)  # distillation uses the labels of its task
        name, options = (task, one.options) if isinstance(task, str) else (task["name"], task)
        records = Records(files, "train", recipe.train.seed).strict()
        several = len(keys) > 1  # otherwise a column named objective is the user's
        own = (one for one in records if not several or one.get("objective", key) == key)
        found = tuple(map(str, one.options.get("labels") or ())) or find_labels(
            name,
            own,
            skip=recipe.data.on_error == "skip",
            multi_label=bool(options.get("multi_label")),
        )
        if found:
            return replace(recipe, model=replace(recipe.model, labels=found))
    return recipe


def build_objective(recipe: Recipe, model: Model) -> tuple[Model, Objective]:
    """Returns the model and its objective.

    Several objectives become a mixture, for which each missing head is added to the model.
    """
    length = recipe.data.sequence_length
    if len(recipe.objective) == 1:
        (one,) = recipe.objective
        model = _with_new_heads(model, one, recipe.train.seed)
        return model, make_objective(one.name, model, one.options, length)
    named = [{"name": one.name, **one.options} for one in recipe.objective]
    seed = recipe.train.seed
    parts = with_part_labels(
        model,
        named,
        lambda: Records(recipe.data, "train", seed).strict(),
        skip=recipe.data.on_error == "skip",
    )
    model = with_heads(model, parts, seed)
    return model, make_objective("mixture", model, {"parts": parts}, length)


def _with_new_heads(model: Model, chosen: ObjectiveSettings, seed: int) -> Model:
    """Returns the model with the heads that its objective adds; the model may have them already."""
    known = {head.name for head in model.spec.heads}
    needed = find_objective(chosen.name).new_heads(chosen.options)
    fresh = tuple(head for head in needed if head.name not in known)
    if not fresh:
        return model
    return extended(model, replace(model.spec, heads=(*model.spec.heads, *fresh)), seed)


def add_adapter(model: Model, recipe: Recipe) -> Model:
    """Adds the adapter of the recipe to the model; all other weights are frozen."""
    assert recipe.adapter is not None
    if recipe.model.base is None:
        raise ConfigError(
            "An [adapter] is added to the weights of an existing model: name it as model.base."
        )
    kind, options = recipe.adapter.type, recipe.adapter.options
    return model.adapters.add(
        adapters.make(kind, options, recipe.train.max_steps), seed=recipe.train.seed
    )
