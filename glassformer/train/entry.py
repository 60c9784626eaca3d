"""`gf.train`: trains by a recipe, or for a task on data."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, GlassformerError
from glassformer.storage.files import atomic_file
from glassformer.storage.fingerprints import fingerprints
from glassformer.tasks.task_words import names_task, near_task, verb_of
from glassformer.train import trainer
from glassformer.train.extend import extended_recipe
from glassformer.train.given_rows import as_json_lines, rows_of
from glassformer.train.inputs import FILE as INPUTS
from glassformer.train.inputs import read_inputs
from glassformer.train.open_run import free_folder
from glassformer.train.recipe import Recipe, Table
from glassformer.train.reporter import Reporter
from glassformer.train.run_folder import Run
from glassformer.train.task_recipe import TaskOptions, make_task_recipe

OPTIONS = [each.name for each in fields(TaskOptions) if each.name not in ("columns", "settings")]


def train(
    what: str | Path | Table | Recipe,
    data: Any = (),
    *,
    text: str | None = None,
    label: str | None = None,
    columns: Mapping[str, str] | None = None,
    settings: Sequence[str] = (),
    restart: bool = False,
    device: str | None = None,
    progress: bool | None = None,
    reporters: Sequence[Reporter] = (),
    **options: Any,
) -> Run:
    """Trains a model for a task on data, or by a recipe, and writes a run folder.

    A run that was interrupted resumes from its last checkpoint when it is called again, with
    bit-identical results.

    Args:
        what: A task such as "classify", or a recipe: the path of a TOML file, its tables as a dict,
            or a `Recipe`; or the folder of a run to extend by `epochs` or `max_steps`.
        data: For a task, the rows: one or several files, a pandas DataFrame, a `datasets.Dataset`,
            or dicts. Rows that are not in a file are written to one beside the run folder. The
            options `validation` and `test` may hold rows, too. For a recipe, settings that replace
            those of the recipe, each as `section.key=value`.
        text: The column with the text.
        label: The column with the label.
        columns: The names of further columns in the data, by the names that the task uses.
        settings: For a task, settings that replace those of its recipe.
        restart: Whether to delete the files of an earlier run in the folder and start again.
        device: Device to train on; replaces `scale.device`.
        progress: Whether to show a progress bar; by default only for tasks.
        reporters: Reporters to call in addition to those that the recipe configures.
        **options: For a task, the other fields of `train.task_recipe.TaskOptions`, such as `base`,
            `out`, `epochs`, `learning_rate`, `validation`, `lora` and `seed`.

    Returns:
        The finished run: `run.metrics` are those of the best evaluation, `run.load()` is the model.

    >>> run = gf.train("classify", df, base="zoo:encoder", text="text", label="category")
    >>> run.load().classify("Where is my card?").label
    """
    given = {"text": text, "label": label}
    named = {role: name for role, name in given.items() if name is not None} | dict(columns or {})
    task = isinstance(what, str) and names_task(what)
    with ExitStack() as stack:
        bar = [_progress_bar(stack)] if (task if progress is None else progress) else []
        how: dict[str, Any] = {
            "restart": restart,
            "device": device,
            "reporters": [*bar, *reporters],
        }
        if task:
            _check_options(options)
            options |= {"columns": named, "settings": settings}
            return _train_task(str(what), data, options, bar, how)
        if isinstance(what, str) and not Path(what).exists() and not Path(what).suffix:
            raise ConfigError(f"{what!r} is not a task, a recipe or a run folder{near_task(what)}")
        length = {name: options.pop(name, None) for name in ("epochs", "max_steps")}
        overrides = list(settings) + ([data] if isinstance(data, str) else list(data))
        if options or named:
            raise ConfigError(
                f"{next(iter(options | named))!r} is for a task, and {str(what)[:80]!r} is a "
                "recipe; give it as a setting, such as 'train.epochs=3'."
            )
        if isinstance(what, str | Path) and Path(what).is_dir():
            recipe = extended_recipe(Path(what), **length)
            extend = any(value is not None for value in length.values())
            return trainer.train(recipe, overrides, extend=extend, **how)
        overrides += [
            f"train.{name}={value}" for name, value in length.items() if value is not None
        ]
        return trainer.train(what, overrides, **how)


def _train_task(
    task: str,
    data: Any,
    options: dict[str, Any],
    bar: Sequence[Reporter],
    how: Mapping[str, Any],
) -> Run:
    out = Path(options.get("out") or free_folder(Path("runs") / str(verb_of(task))))
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(_as_files(rows, out, name, bool(how["restart"])))
            for name, rows in {"rows": data, **_held_out_data(options)}.items()
        }
        given = {**options, **files, "out": str(out)}
        made = make_task_recipe(task, given.pop("rows"), TaskOptions(**given))
        for reporter in bar:
            for note in made.notes:
                reporter.note(note)
        return trainer.train(made.tables, **how)


def _check_options(options: Mapping[str, Any]) -> None:
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        known = ["text", "label", "columns", "settings", *OPTIONS]
        near = get_close_matches(unknown[0], known, 1, cutoff=0.7)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}."
        raise ConfigError(f"There is no option {unknown[0]!r}; {hint}")


def _held_out_data(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that name files or hold rows, and no share of the rows."""
    given = {name: options.get(name) for name in ("validation", "test")}
    return {name: data for name, data in given.items() if not isinstance(data, int | float | None)}


@contextmanager
def _as_files(data: Any, out: Path, name: str, restart: bool) -> Iterator[list[str]]:
    """Yields the paths of the data; rows are written to a file, which a failed start removes."""
    if isinstance(data, str | Path):
        yield [str(data)]
        return
    if isinstance(data, Sequence) and all(isinstance(one, str | Path) for one in data):
        yield [str(one) for one in data]
        return
    folder = out if out.name not in ("", "..") else Path(os.path.abspath(out))
    path = folder.with_name(f"{folder.name or 'run'}.{name}.jsonl")
    content = as_json_lines(rows_of(data))
    there = os.path.lexists(path)
    if there:
        _check_rows(path, content, folder, restart)
    if not there or restart:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as stream:
            stream.write(content)
    try:
        yield [str(path)]
    except GlassformerError:
        if not there and not out.exists():
            path.unlink(missing_ok=True)
        raise


def _check_rows(path: Path, content: bytes, out: Path, restart: bool) -> None:
    """Raises an error if the file of the rows has other ones, and must not be replaced."""
    if path.is_symlink() or not path.is_file():
        raise ConfigError(
            f"{path} is not a regular file, and the rows would be written there; name another out."
        )
    if path.read_bytes() == content:
        return
    if not restart:
        raise ConfigError(
            f"{path} holds other rows, of an earlier run; name another out, or restart=True."
        )
    name, inputs = os.path.relpath(path, out), out / INPUTS
    groups = read_inputs(inputs).values() if inputs.is_file() else ()
    if fingerprints([path])[path] not in [files.get(name) for files in groups]:
        raise ConfigError(
            f"{path} holds other rows, which no run in {out} has read; move the file to another "
            "place, or name another out."
        )


def _progress_bar(stack: ExitStack) -> Reporter:
    """Returns the progress bar of the command line, which imports this package."""
    bar: Reporter = import_module("glassformer.cli.train").ProgressBar.on_standard_error()
    stack.callback(bar.end)
    return bar
