"""Builds the batches of a recipe: reads and tokenizes its data files."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from glassformer.data import Records
from glassformer.data.files import find_files
from glassformer.errors import ConfigError
from glassformer.model import Model
from glassformer.train.batches import DataModule, Loader, MemmapDataset, make_loader, prepare
from glassformer.train.batches.worker_process import available_cores
from glassformer.train.data_summary import DataSummary, SplitSummary
from glassformer.train.distributed import Worker
from glassformer.train.objectives import Objective
from glassformer.train.objectives.registry import find_objective
from glassformer.train.objectives.text_inputs import length_of
from glassformer.train.recipe import Recipe
from glassformer.train.reporter import Reporter

SAMPLE = 2**28
MAX_WORKERS = 8
"""Processes that make batches. One makes about 5 million tokens per second of most objectives."""
HELD_OUT_SPLITS = {"valid": "validation", "test": "test"}  # the key of the data by the name in logs


def tokenizer_texts(recipe: Recipe, reporters: Sequence[Reporter]) -> Iterator[str]:
    """Yields texts of the data to train a tokenizer on.

    Large data is sampled uniformly by record to about `SAMPLE` bytes.
    """
    seed = recipe.train.seed
    records, draw = Records(recipe.data, "train", seed), random.Random(seed)
    share = SAMPLE / max(records.total, 1)
    for number, record in enumerate(records.strict()):
        if number % 1000 == 0:
            report_progress(reporters, "learning the tokenizer", records.done, records.total)
        if share >= 1 or draw.random() < share:
            yield from _texts_in(value for key, value in record.items() if key != "where")


def check_columns(recipe: Recipe) -> None:
    """Raises an error if [data.columns] has a name that no objective of the recipe reads."""
    read = _columns_of([{"name": one.name, **one.options} for one in recipe.objective])
    for name in recipe.data.columns if read else ():
        if name not in read:
            near = get_close_matches(name, read, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            what = " and ".join(one.name for one in recipe.objective)
            raise ConfigError(
                f"data.columns.{name} names a column that {what} does not read{hint} It reads "
                f"{', '.join(read)}; on the right of each stands the name that the file has."
            )


def _columns_of(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the columns that objectives read; none if one of them does not say it."""
    found: dict[str, None] = {"objective": None} if len(tables) > 1 else {}
    for table in tables:
        own: Sequence[str] = find_objective(str(table["name"])).columns
        if "parts" in table:
            own = _columns_of(table["parts"])
        elif "task" in table:
            own = _columns_of([{"name": table["task"], **(table.get("task_options") or {})}])
        if not own:
            return []
        found |= dict.fromkeys(own)
    return list(found)


def build_dataloader(
    recipe: Recipe,
    model: Model,
    objective: Objective,
    worker: Worker,
    cache: Path,
    reporters: Sequence[Reporter],
) -> DataModule:
    """Tokenizes the data, unless it is cached, and returns the batches of this process.

    Reports a summary of the data, and raises an error if nothing can be learned from it.
    """
    data, on_gpu = recipe.data, worker.device.type == "cuda"
    parts = [part for part in objective.modules() if isinstance(part, Objective)]
    for part in parts:
        part.few_shapes = on_gpu
    length_of(model, data.sequence_length)  # an error if rows are longer than the model can read
    splits = ["train", *(split for split in HELD_OUT_SPLITS.values() if data.files(split))]
    prepared = partial(_prepared_split, recipe, model, objective, data.cache or cache, reporters)
    stores = {split: prepared(split) for split in splits}
    summary = DataSummary(
        {
            split: SplitSummary.of(find_files(data.files(split)), store)
            for split, store in stores.items()
        }
    )
    for reporter in reporters:
        reporter.data(summary)
    for part in parts:
        part.check(stores["train"].tally)
    workers = min(data.num_workers or available_cores() - 1, MAX_WORKERS) if on_gpu else 0
    loader = partial(_split_loader, recipe, model, objective, for_gpu=on_gpu)
    return DataModule(
        loader(stores["train"], ahead=2, workers=workers),
        {name: loader(stores[split]) for name, split in HELD_OUT_SPLITS.items() if split in stores},
        worker.data_rank,
        worker.data_parallel_size,
        recipe.train.max_eval_batches or None,
    )


def _prepared_split(
    recipe: Recipe,
    model: Model,
    objective: Objective,
    cache: str | Path,
    reporters: Sequence[Reporter],
    split: str,
) -> MemmapDataset:
    """Returns the examples of a split."""
    about: dict[str, Any] = {
        "objective": [[one.name, dict(one.options)] for one in recipe.objective],
        "tokenizer": None if model.tokenizer is None else model.tokenizer.fingerprint,
        "context": context_length(model),
        "length": recipe.data.sequence_length,
        "labels": list(model.spec.labels),
    }
    return prepare(
        recipe.data,
        split,
        objective,
        cache,
        about=about,
        seed=recipe.train.seed,
        progress=partial(report_progress, reporters, f"reading {split}"),
    )


def _split_loader(
    recipe: Recipe, model: Model, objective: Objective, store: MemmapDataset, **options: Any
) -> Loader:
    """Returns the loader of a split; see `make_loader` for the options."""
    settings = recipe.train
    return make_loader(
        recipe.data,
        store,
        objective,
        context=context_length(model),
        seed=settings.seed,
        batch=settings.batch_size,
        accumulate=settings.gradient_accumulation_steps,
        **{"ahead": 0, **options},
    )


def context_length(model: Model) -> int | None:
    """Returns how many tokens the model reads at once.

    This is the size of its position table, or else the length given in its config; None if neither
    exists.
    """
    length = model.spec.last_stack.context_length
    if length is not None:
        return length
    configured: int | None = model.config.get(
        "max_position_embeddings", model.config.get("n_positions")
    )
    return configured


def report_progress(reporters: Sequence[Reporter], what: str, done: int, total: int | None) -> None:
    """Tells the reporters how far a preparation is."""
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
