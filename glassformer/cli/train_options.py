"""Options of `glassformer train` for tasks, and the recipe that follows from them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.evaluate import named_columns
from glassformer.cli.output_paths import OutputPath
from glassformer.cli.shared_options import OnError, zoo_names
from glassformer.errors import ConfigError, GlassformerError

if TYPE_CHECKING:
    from rich.console import Console

    from glassformer.train.recipe import Recipe

FLAGS = {  # settings that errors name, and the flags of a task
    r'data\.on_error = "skip"(?: \(on the command line, data\.on_error=skip\))?': "--on-error skip",
    r'data\.encoding = "(.+?)"': r"--encoding \1",
    r'data\.delimiter = (".+?")': r"--delimiter \1",
    r"map the column in \[data\.columns\]": "give it the columns of the first file",
    r"objective\.multi_label = true": "--labels several",
    r"\btrain\.learning_rate\b": "--learning-rate",
    r"\brun\.out=": "--out ",
    r"\brun\.out\b": "--out",
}
DATA, TRAINING = "Data of a task", "Training of a task"
SETTING = re.compile(r"[a-z]+(\.[\w-]+)+=.*", re.DOTALL)
RECIPES = (".toml", ".json")


def data(*names: str, **options: Any) -> object:
    return typer.Option(*names, rich_help_panel=DATA, **options)


def training(**options: Any) -> object:
    return typer.Option(rich_help_panel=TRAINING, **options)


@dataclass(frozen=True)
class TaskRunOptions:
    """The options of a task; for a recipe or a run, only its length can be given."""

    base: Annotated[
        str | None,
        training(
            help="The model to start from; by default zoo:encoder, zoo:translator or zoo:stories.",
            autocompletion=zoo_names,
        ),
    ] = None
    out: Annotated[
        Path | None,
        OutputPath(continued=True),
        training(help="Run folder; by default runs/TASK."),
    ] = None
    epochs: Annotated[
        float | None, training(help="Passes over the data, in total if a run is extended.", min=0.0)
    ] = None
    max_steps: Annotated[int | None, training(help="Steps, instead of epochs.", min=1)] = None
    learning_rate: Annotated[float | None, training(help="The maximum learning rate.")] = None
    batch_size: Annotated[int, training(help="Rows per step; 0 chooses it.", min=0)] = 0
    lora: Annotated[
        bool, training(help="Train a LoRA adapter and the new head, not all weights.")
    ] = False
    seed: Annotated[int, training(help="Random seed.", min=0)] = 0
    text: Annotated[str | None, data(help="The column with the text.")] = None
    label: Annotated[str | None, data(help="The column with the label.")] = None
    column: Annotated[
        list[str] | None, data(help="Name of a column, as label=stars; may be repeated.")
    ] = None
    labels: Annotated[
        Literal["one", "several", "number"] | None,
        data(help="Kind of labels: one class per text, several classes, or a number."),
    ] = None
    balanced: Annotated[bool, data(help="Weight the loss so that all labels count equally.")] = (
        False
    )
    validation: Annotated[
        str | None,
        data(help="A file, or the fraction of rows to hold out; by default 0.1; 0 for none."),
    ] = None
    test: Annotated[str | None, data(help="A file to evaluate the best model on.")] = None
    source_language: Annotated[
        str | None, data("--from", "--source-language", help="Source language of a translation.")
    ] = None
    target_language: Annotated[
        str | None, data("--to", "--target-language", help="Target language of a translation.")
    ] = None
    format: Annotated[
        str | None,
        data(
            help="csv, tsv, jsonl, conll, squad, parallel, text, parquet, librispeech; by default "
            "detected from the file extension and the content."
        ),
    ] = None
    delimiter: Annotated[str | None, data(help="Delimiter of a table; by default detected.")] = None
    encoding: Annotated[str | None, data(help="Encoding; by default detected.")] = None
    on_error: Annotated[OnError, data(help="Stop at an invalid row, or skip it.")] = "stop"

    def recipe(
        self, what: str, rest: list[str], console: Console
    ) -> tuple[Recipe | dict[str, Any] | Path, list[str], bool]:
        """Returns the recipe, its overrides, and whether it extends an existing run."""
        kind = kind_of(what)
        if kind == "task":
            return self._task_recipe(what, rest, console), [], False
        self._refuse_others(what, kind)
        if kind == "recipe":
            return Path(what), self._settings(what, rest), False
        from glassformer.train.extend import extended_recipe

        recipe = extended_recipe(Path(what), self.epochs, self.max_steps)
        extend = self.epochs is not None or self.max_steps is not None
        return recipe, self._settings(what, rest), extend

    @contextmanager
    def errors_with_flags(self, what: str) -> Iterator[None]:
        """Raises errors of a task with the flags of the command line as remedies."""
        try:
            yield
        except GlassformerError as error:
            said = str(error)
            for setting, flag in FLAGS.items() if kind_of(what) == "task" else ():
                said = re.sub(setting, flag, said)
            raise (error if said == str(error) else GlassformerError(said)) from None

    def shows_metrics(self, what: str) -> bool:
        """Whether the metrics are shown at the end: of tasks, and of their runs."""
        return kind_of(what) != "recipe"

    def _settings(self, what: str, rest: list[str]) -> list[str]:
        wrong = [word for word in rest if not SETTING.fullmatch(word)]
        if wrong:
            raise ConfigError(
                f"{wrong[0]!r} is not a setting, which is given as section.key=value; for a task "
                f"on a file, name the task first: glassformer train classify {what}."
            )
        return rest

    def _refuse_others(self, what: str, kind: str) -> None:
        length = ("epochs", "max_steps") if kind == "run" else ()
        for each in fields(self):
            if getattr(self, each.name) != each.default and each.name not in length:
                flag = f"--{each.name.replace('_', '-')}"
                way = (
                    "a run keeps its recipe; --epochs and --max-steps give it more"
                    if kind == "run"
                    else f"{flag} is for a task on a file; change the recipe by section.key=value, "
                    f"as in {EXAMPLES.get(each.name, 'train.epochs=3')}"
                )
                raise ConfigError(f"{what}: {way}.")

    def _task_recipe(self, task: str, rest: list[str], console: Console) -> dict[str, Any]:
        from glassformer.train.recipe_text import short_arrays, write_recipe
        from glassformer.train.task_recipe import TaskOptions, make_task_recipe

        files = [word for word in rest if os.path.exists(word) or not SETTING.fullmatch(word)]
        named = {"text": self.text, "label": self.label}
        columns = {role: name for role, name in named.items() if name is not None}
        options = TaskOptions(
            **{
                each.name: getattr(self, each.name)
                for each in fields(self)
                if each.name not in ("text", "label", "column", "validation", "out")
            },
            out=None if self.out is None else str(self.out),
            columns=columns | named_columns(self.column or []),
            validation=_number_or_path(self.validation),
            settings=[word for word in rest if word not in files],
        )
        made = make_task_recipe(task, files, options)
        for note in made.notes:
            console.print(note, soft_wrap=True, highlight=False, markup=False)
        text = f"\n{short_arrays(write_recipe(made.tables))}"
        console.print(text, soft_wrap=True, highlight=False, markup=False, style="dim")
        return made.tables


EXAMPLES = {
    "base": "model.base=zoo:encoder",
    "out": "run.out=runs/mine",
    "learning_rate": "train.learning_rate=1e-4",
    "max_steps": "train.max_steps=100",
    "batch_size": "train.batch_size=16",
    "seed": "train.seed=1",
    "validation": "data.validation=0.1",
    "encoding": "data.encoding=latin-1",
    "delimiter": "data.delimiter=';'",
    "format": "data.format=csv",
}


def kind_of(what: str) -> Literal["task", "run", "recipe"]:
    """Returns what the first argument names."""
    from glassformer.tasks.task_words import names_task, near_task

    if names_task(what):
        return "task"
    if os.path.isdir(what):
        return "run"
    if os.path.exists(what) or what.endswith(RECIPES):
        if not what.endswith(RECIPES) and Path(what).suffix:
            raise ConfigError(
                f"{what} is not a recipe; name the task before a file with data: glassformer "
                f"train classify {what}."
            )
        return "recipe"
    raise ConfigError(f"{what} is not a task, a recipe or a run folder{near_task(what)}")


def _number_or_path(value: str | None) -> str | float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return value
