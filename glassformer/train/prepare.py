"""Train room, before the first step: a recipe becomes a loop that can be run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.model import Model
from glassformer.train.build import build
from glassformer.train.data import Loader, Records, fingerprint, make_loader
from glassformer.train.data import prepare as prepare_data
from glassformer.train.distributed import Place
from glassformer.train.feed import Feed
from glassformer.train.loop import Loop
from glassformer.train.objectives import Objective, make_objective
from glassformer.train.objectives.labels import find_labels
from glassformer.train.objectives.mixture import with_heads, with_part_labels
from glassformer.train.recipe import Recipe
from glassformer.train.reporter import Reporter


def prepare(recipe: Recipe, place: Place, folder: Path, reporters: Sequence[Reporter]) -> Loop:
    """Learns a tokenizer, finds labels, makes the model, tokenizes the data: what of that is not
    in the folder from an earlier time."""
    recipe = with_labels(recipe)
    model = build(recipe, lambda: texts(recipe, reporters), folder / "tokenizer")
    model, objective = objective_of(recipe, model)
    feed = make_feed(recipe, model, objective, place, folder / "data", reporters)
    return Loop(recipe, model, objective, feed, place)


def with_labels(recipe: Recipe) -> Recipe:
    """Labels that nobody has named, for a head that is to be made, are those of the data: of
    several objectives, those of the first that has some."""
    fresh = recipe.model.preset is not None or recipe.model.make
    if recipe.model.labels or not fresh:
        return recipe
    for one in recipe.objective:
        name = one.options.get("task", one.name)  # distillation is of another's labels
        found = find_labels(name, Records(recipe.data, "train").strict())
        if found:
            return replace(recipe, model=replace(recipe.model, labels=found))
    return recipe


def objective_of(recipe: Recipe, model: Model) -> tuple[Model, Objective]:
    """Several objectives are a mixture, and need a head each on the model."""
    length = recipe.data.length
    if len(recipe.objective) == 1:
        (one,) = recipe.objective
        return model, make_objective(one.name, model, one.options, length)
    named = [{"name": one.name, **one.options} for one in recipe.objective]
    parts = with_part_labels(model, named, lambda: Records(recipe.data, "train").strict())
    model = with_heads(model, parts, recipe.train.seed)
    return model, make_objective("mixture", model, {"parts": parts}, length)


def texts(recipe: Recipe, reporters: Sequence[Reporter]) -> Iterator[str]:
    """All texts of the data, for a tokenizer to learn from."""
    records = Records(recipe.data, "train")
    for record in records.strict():
        tell(reporters, "learning the tokenizer", records.done, records.total)
        yield from _texts_in(value for key, value in record.items() if key != "where")


def make_feed(
    recipe: Recipe,
    model: Model,
    objective: Objective,
    place: Place,
    cache: Path,
    reporters: Sequence[Reporter],
) -> Feed:
    settings, data, context = recipe.train, recipe.data, context_of(model)
    about: dict[str, Any] = {
        "objective": [[one.name, dict(one.options)] for one in recipe.objective],
        "tokenizer": None if model.tokenizer is None else fingerprint(model.tokenizer),
        "context": context,
        "length": data.length,
        "labels": list(model.spec.labels),
    }

    def loader(split: str, ahead: int) -> Loader:
        store = prepare_data(
            data,
            split,
            objective,
            data.cache or cache,
            about=about,
            progress=lambda done, total: tell(reporters, f"reading {split}", done, total),
        )
        if store.skipped:
            for reporter in reporters:
                reporter.note(
                    f"{store.skipped:,} records of data.{split} are left out; the first: "
                    f"{store.reasons[0]}"
                )
        return make_loader(
            data,
            store,
            objective,
            context=context,
            seed=settings.seed,
            batch=settings.batch,
            accumulate=settings.accumulate,
            ahead=ahead,
        )

    train = loader("train", 2)
    valid = loader("valid", 0) if data.valid else None
    return Feed(train, valid, place, settings.evaluate_batches or None)


def context_of(model: Model) -> int | None:
    """How many tokens the model reads at once: what its table of positions has, or what its config
    says that it was made for."""
    table = model.spec.last_stack.embed.position
    if table is not None:
        return table.length
    says: int | None = model.config.get("max_position_embeddings", model.config.get("n_positions"))
    return says


def tell(reporters: Sequence[Reporter], what: str, done: int, total: int | None) -> None:
    for reporter in reporters:
        reporter.prepare(what, done, total)


def _texts_in(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple):
            yield from _texts_in(value)
        elif isinstance(value, dict):
            yield from _texts_in(value.values())
