"""Example code for the model card that loads a trained model and uses it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from glassformer.train.recipe import Recipe
from glassformer.train.report.summary import RunSummary


@dataclass(frozen=True)
class Example:
    """An example call of a model's method.

    `texts` and `options` are its arguments; `shown` is the part of the result to print. The command
    of the command line has the same name.
    """

    task: str
    texts: tuple[str, ...]
    shown: str
    options: tuple[tuple[str, int], ...] = ()

    def python(self) -> str:
        given = [*map(_quoted, self.texts), *(f"{name}={value}" for name, value in self.options)]
        return f"print(model.{self.task}({', '.join(given)}){self.shown})"

    def words(self, folder: str) -> str:
        flags = [f"--{name.replace('_', '-')} {value}" for name, value in self.options]
        named = [shlex.quote(folder), *map(_in_shell, self.texts), *flags]
        return f"glassformer {self.task} {' '.join(named)}"


WRITES = Example("generate", ("The",), ".text", (("max_new_tokens", 50),))
EXAMPLES = {
    "causal-lm": WRITES,
    "permutation-lm": WRITES,
    "continuation": WRITES,
    "sequence-to-sequence": WRITES,
    "span-corruption": WRITES,
    "denoising": WRITES,
    "masked-lm": Example("fill", ("The ___ is here.",), ".text"),
    "classification": Example("classify", ("The plot is thin.",), ".label"),
    "tagging": Example("tag", ("Ada Lovelace was born in London.",), ".entities"),
    "span": Example("answer", ("Who wrote it?", "Ada Lovelace wrote it in 1843."), ".text"),
    "contrastive": Example("embed", ("A dog barks.",), ".shape"),
}


def use(run: RunSummary) -> Iterator[str]:
    """Yields the lines of the usage section."""
    kept = "best" if run.best() is not None else "model"
    folder, example = f"{run.run.folder}/{kept}", example_of(run.recipe)
    yield "\n## Use\n\nIn the folder in which `glassformer train` was called:\n"
    yield "```python\nimport glassformer as gf\n"
    yield f"model = gf.load({_quoted(folder)})"
    yield f"{'print(model)' if example is None else example.python()}\n```\n"
    inspect = f"glassformer inspect {shlex.quote(folder)}"
    yield f"```sh\n{inspect if example is None else example.words(folder)}\n```"


def example_of(recipe: Recipe) -> Example | None:
    """Returns the example for a recipe; None if its objectives are not a single task on text."""
    if len(recipe.objective) > 1 or recipe.data.format == "tokens":
        return None
    (one,) = recipe.objective
    if any(one.options.get(key) for key in ("source_language", "target_language")):
        return None
    task = one.options.get("task") if one.name == "distillation" else one.name
    return EXAMPLES.get(task) if isinstance(task, str) else None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _in_shell(text: str) -> str:
    return f'"{text}"' if shlex.quote(text) != text else text
