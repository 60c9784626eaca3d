"""Training entry points: `train` runs a recipe, `dry_run` estimates its cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from inspect import Parameter
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.train.build_data import prepare
from glassformer.train.coerce import coerce_value
from glassformer.train.distributed import Worker, deterministic, init_distributed
from glassformer.train.errors import company_explained, explained, model_explained
from glassformer.train.estimate import RunEstimate, estimate_run
from glassformer.train.interrupt import TrainingInterrupted, terminable
from glassformer.train.objectives.registry import check_options
from glassformer.train.recipe import ObjectiveSettings, Recipe, Table, read_recipe
from glassformer.train.report import own_reporters
from glassformer.train.reporter import Reporter
from glassformer.train.run_folder import Run, onlooker, open_run

Source = str | Path | Table | Recipe
MIXED = {"weight": 1.0, "rate": 1.0}
UNSAID = (Parameter.empty, None)  # TOML has no null value


def train(
    recipe: Source,
    overrides: Sequence[str] = (),
    *,
    restart: bool = False,
    device: str | None = None,
    reporters: Sequence[Reporter] = (),
) -> Run:
    """Trains a model according to a recipe and writes a run folder.

    A run that was interrupted resumes from its last checkpoint and gives bit-identical results to
    an uninterrupted run.

    Args:
        recipe: Path of a TOML file, its tables as a dict, or a `Recipe`.
        overrides: Settings that replace those of the recipe, each as `section.key=value`.
        restart: Whether to delete the files of an earlier run in the folder and start again.
        device: Device to train on; replaces `scale.device`.
        reporters: Reporters to call in addition to those that the recipe configures.

    Returns:
        The finished run; `run.model` is the folder of the trained model.

    >>> run = gf.train("recipe.toml", ["train.max_steps=100"])
    >>> gf.load(run.model).generate("ROMEO:")
    """
    whole = filled(read_recipe(recipe, overrides))
    with (
        stopped_explained(whole),
        init_distributed(device or whole.scale.device, whole.scale) as place,
        ExitStack() as opened,
    ):
        opened.enter_context(company_explained(place))

        def begin() -> tuple[Run, Sequence[Reporter]]:
            told = [*reporters, *own_reporters(whole.run)]
            return opened.enter_context(open_run(whole, restart=restart)), told

        run, told = place.first(begin) or (onlooker(whole), ())
        if run.finished is None:
            with deterministic(place, whole.train.deterministic), explained(whole.train):
                _go(whole, place, run, told)
    return run


def _go(recipe: Recipe, place: Worker, run: Run, reporters: Sequence[Reporter]) -> None:
    with model_explained(), run.adding("tokenizer", "data"):
        loop = prepare(recipe, place, run.folder, reporters)
    if run.is_begun:
        loop.resume(run)
    else:
        run.cut(0)
        loop.check_metric()
    plan = estimate_run(loop)
    try:
        for reporter in reporters:
            reporter.begin(run, plan)
        loop.go(run, plan, reporters)
        loop.export_model(run.model, run.replacing)
        how = loop.ending()
        for reporter in reporters:
            reporter.finish(how)
        run.finish(how)
    finally:
        loop.feed.close()
        for reporter in reporters:
            reporter.end()


@contextmanager
def stopped_explained(recipe: Recipe) -> Iterator[None]:
    """Turns Ctrl-C and SIGTERM into `TrainingInterrupted` outside the training steps.

    During the steps, the loop handles both signals itself.
    """
    try:
        with terminable():
            yield
    except TrainingInterrupted:
        raise
    except KeyboardInterrupt:
        folder, steps = Path(recipe.run.out), recipe.train.max_steps
        done = Run(folder, recipe).step
        last = "" if steps is None else f" of {steps}"
        raise TrainingInterrupted(
            f"Stopped; step {done}{last} is saved in {folder}, and the same command goes on from "
            "there."
            if done
            else "Stopped before the first checkpoint; the same command begins again."
        ) from None


def dry_run(
    recipe: Source,
    overrides: Sequence[str] = (),
    *,
    device: str | None = None,
    reporters: Sequence[Reporter] = (),
) -> RunEstimate:
    """Estimates the cost of a run from a few real steps, without keeping anything on disk.

    Args:
        recipe: Path of a TOML file, its tables as a dict, or a `Recipe`.
        overrides: Settings that replace those of the recipe, each as `section.key=value`.
        device: Device to train on; replaces `scale.device`.
        reporters: Reporters that receive the progress of the preparation.

    Returns:
        The estimate of memory, time and floating-point operations.
    """
    whole = filled(read_recipe(recipe, overrides))
    with (
        init_distributed(device or whole.scale.device, whole.scale) as place,
        company_explained(place),
        TemporaryDirectory(prefix="glassformer-") as folder,
        deterministic(place, whole.train.deterministic),
        explained(whole.train),
    ):
        with model_explained():
            loop = prepare(whole, place, Path(folder), reporters if place.main else ())
        try:
            return estimate_run(loop, measure=True)
        finally:
            loop.feed.close()


def filled(recipe: Recipe) -> Recipe:
    """Returns the recipe with the default options of its objectives filled in."""
    mixed = len(recipe.objective) > 1
    return replace(recipe, objective=tuple(_filled(one, mixed) for one in recipe.objective))


def _filled(settings: ObjectiveSettings, mixed: bool) -> ObjectiveSettings:
    """Fills in the options of one objective.

    In a mixture, `weight` and `rate` are options of the mixture, not of the objective.
    """
    own = {k: v for k, v in settings.options.items() if not (mixed and k in MIXED)}
    known = check_options(settings.name, own)
    defaults = {k: known[k].default for k in known if known[k].default not in UNSAID}
    given = {
        key: coerce_value(f"objective.{key}", value, known[key].kind) if key in known else value
        for key, value in settings.options.items()
    }
    return replace(settings, options=defaults | (MIXED if mixed else {}) | given)
