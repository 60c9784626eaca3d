"""An example call of a trained model, which an objective declares for the model card."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class UsageExample:
    """An example call of a model's method.

    `texts` and `options` are its arguments; `shown` is the part of the result to print. The command
    of the command line has the same name.
    """

    task: str
    texts: tuple[str, ...]
    shown: str
    options: tuple[tuple[str, int], ...] = ()

    def python(self) -> str:
        given = [*map(quoted, self.texts), *(f"{name}={value}" for name, value in self.options)]
        return f"print(model.{self.task}({', '.join(given)}){self.shown})"

    def words(self, folder: str) -> str:
        flags = [f"--{name.replace('_', '-')} {value}" for name, value in self.options]
        named = [shlex.quote(folder), *map(_in_shell, self.texts), *flags]
        return f"glassformer {self.task} {' '.join(named)}"


GENERATE = UsageExample("generate", ("The",), ".text", (("max_new_tokens", 50),))


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _in_shell(text: str) -> str:
    return f'"{text}"' if shlex.quote(text) != text else text
