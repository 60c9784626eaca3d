"""Builds the training loop of a recipe: tokenizer, labels, model, objective and data."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer import adapters
from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.train.build_model import build
from glassformer.train.data import Loader, Records, make_loader
from glassformer.train.data import prepare as prepare_data
from glassformer.train.data_feed import DataFeed
from glassformer.train.distributed import Worker
from glassformer.train.loop import Loop
from glassformer.train.objectives import Objective, make_objective
from glassformer.train.objectives.labels import find_labels
from glassformer.train.objectives.mixture_parts import part_names, with_heads, with_part_labels
from glassformer.train.objectives.text_inputs import length_of
from glassformer.train.recipe import Recipe
from glassformer.train.reporter import Reporter
from glassformer.word_vectors import read_vectors, start_embedding

SAMPLE = 2**28


def prepare(recipe: Recipe, place: Worker, folder: Path, reporters: Sequence[Reporter]) -> Loop:
    """Prepares everything that a recipe needs and returns its training loop.

    Trains a tokenizer, finds labels, builds the model and tokenizes the data, except for what an
    earlier run or the main process has already written to the folder.

    Args:
        recipe: The complete recipe.
        place: This process and its device.
        folder: The run folder.
        reporters: Reporters that receive progress and notes.

    Returns:
        The training loop, before its first step.
    """
    recipe = with_labels(recipe)

    def made() -> tuple[Model, Objective, DataFeed]:
        model = build(recipe, lambda: texts(recipe, reporters), folder / "tokenizer")
        if recipe.model.word_vectors is not None:
            found = start_embedding(model, read_vectors(recipe.model.word_vectors))
            for reporter in reporters:
                reporter.note(
                    f"{found:,} rows of the token table start from {recipe.model.word_vectors}"
                )
        model, objective = objective_of(recipe, model)
        feed = make_feed(recipe, model, objective, place, folder / "data", reporters)
        if recipe.adapter is not None:
            model = adapted(model, with_num_steps(recipe, feed))
        return model, objective, feed

    model, objective, feed = place.in_turn(made)
    return Loop(with_num_steps(recipe, feed), model, objective, feed, place)


def with_num_steps(recipe: Recipe, feed: DataFeed) -> Recipe:
    """Returns the recipe with the number of steps that its epochs amount to."""
    return replace(recipe, train=recipe.train.with_num_steps(feed.steps))


def with_labels(recipe: Recipe) -> Recipe:
    """Returns the recipe with the labels of a head that has to be created.

    They are the labels that the objective lists, or else those found in its data; with several
    objectives, those of the first one that has any.
    """
    fresh = recipe.model.preset is not None or recipe.model.init_missing
    if recipe.model.labels or not fresh:
        return recipe
    keys = part_names(one.name for one in recipe.objective)
    for key, one in zip(keys, recipe.objective, strict=True):
        task = one.options.get("task", one.name)  # distillation uses the labels of its task
        name = task if isinstance(task, str) else task["name"]
        records = Records(recipe.data, "train", recipe.train.seed).strict()
        own = (record for record in records if record.get("objective", key) == key)
        found = tuple(map(str, one.options.get("labels") or ())) or find_labels(name, own)
        if found:
            return replace(recipe, model=replace(recipe.model, labels=found))
    return recipe


def objective_of(recipe: Recipe, model: Model) -> tuple[Model, Objective]:
    """Returns the model and its objective.

    Several objectives become a mixture, for which each missing head is added to the model.
    """
    length = recipe.data.sequence_length
    if len(recipe.objective) == 1:
        (one,) = recipe.objective
        return model, make_objective(one.name, model, one.options, length)
    named = [{"name": one.name, **one.options} for one in recipe.objective]
    seed = recipe.train.seed
    parts = with_part_labels(model, named, lambda: Records(recipe.data, "train", seed).strict())
    model = with_heads(model, parts, seed)
    return model, make_objective("mixture", model, {"parts": parts}, length)


def adapted(model: Model, recipe: Recipe) -> Model:
    """Adds the adapter of the recipe to the model; all other weights are frozen."""
    assert recipe.adapter is not None
    if recipe.model.base is None:
        raise ConfigError(
            "An [adapter] is added to the weights of an existing model: name it as model.base."
        )
    kind, options = recipe.adapter.type, recipe.adapter.options
    return model.add_adapter(
        adapters.make(kind, options, recipe.train.max_steps), seed=recipe.train.seed
    )


def texts(recipe: Recipe, reporters: Sequence[Reporter]) -> Iterator[str]:
    """Yields texts of the data to train a tokenizer on.

    Large data is sampled uniformly by record to about `SAMPLE` bytes.
    """
    seed = recipe.train.seed
    records, draw = Records(recipe.data, "train", seed), random.Random(seed)
    share = SAMPLE / max(records.total, 1)
    for number, record in enumerate(records.strict()):
        if number % 1000 == 0:
            tell(reporters, "learning the tokenizer", records.done, records.total)
        if share >= 1 or draw.random() < share:
            yield from _texts_in(value for key, value in record.items() if key != "where")


def make_feed(
    recipe: Recipe,
    model: Model,
    objective: Objective,
    place: Worker,
    cache: Path,
    reporters: Sequence[Reporter],
) -> DataFeed:
    """Tokenizes the data, unless it is cached, and returns the feed of batches."""
    settings, data, context = recipe.train, recipe.data, context_of(model)
    for part in objective.modules():
        if isinstance(part, Objective):
            part.few_shapes = place.device.type == "cuda"
    length_of(model, data.sequence_length)  # an error if rows are longer than the model can read
    about: dict[str, Any] = {
        "objective": [[one.name, dict(one.options)] for one in recipe.objective],
        "tokenizer": None if model.tokenizer is None else model.tokenizer.fingerprint,
        "context": context,
        "length": data.sequence_length,
        "labels": list(model.spec.labels),
    }

    def loader(split: str, ahead: int) -> Loader:
        store = prepare_data(
            data,
            split,
            objective,
            data.cache or cache,
            about=about,
            seed=settings.seed,
            progress=lambda done, total: tell(reporters, f"reading {split}", done, total),
        )
        if store.skipped:
            for reporter in reporters:
                reporter.note(
                    f"{store.skipped:,} of the records of data.{split} left out; the first: "
                    f"{store.reasons[0]}"
                )
        return make_loader(
            data,
            store,
            objective,
            context=context,
            seed=settings.seed,
            batch=settings.batch_size,
            accumulate=settings.gradient_accumulation_steps,
            ahead=ahead,
        )

    train = loader("train", 2)
    splits = {"valid": "validation", "test": "test"}
    held_out = {name: loader(split, 0) for name, split in splits.items() if data.files(split)}
    return DataFeed(train, held_out, place, settings.max_eval_batches or None)


def context_of(model: Model) -> int | None:
    """Returns how many tokens the model reads at once.

    This is the size of its position table, or else the length given in its config; None if neither
    exists.
    """
    length = model.spec.last_stack.context_length
    if length is not None:
        return length
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
