"""Interactive mode of glassformer generate, in a terminal without a prompt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from glassformer.cli.parse_values import knobs_of
from glassformer.errors import ConfigError, GlassformerError

if TYPE_CHECKING:
    from glassformer.generate import Generator

HINT = (
    "Each line is a prompt (\\n in it is a new line); a line that begins with + continues the "
    "dialog. /set option=value, /options, /reset; Ctrl-C stops a text, Ctrl-D leaves."
)


def run_chat(
    generator: Generator, given: dict[str, Any], answer: Callable[[str, dict[str, Any]], str]
) -> None:
    """Reads prompts until the end of the input.

    Args:
        generator: The generator, which validates settings.
        given: Initial generation settings.
        answer: Generates and prints a continuation of a prompt with given settings, and returns it.
    """
    console = Console(highlight=False)
    console.print(HINT, style="dim", markup=False)
    turned, conversation = given, ""
    with history():
        while True:
            try:
                line = input("> ").strip()
                if line.startswith("/"):
                    turned = command(console, generator, line, turned, given)
                elif line:
                    prompt = line.replace("\\n", "\n")
                    prompt = conversation + prompt[1:] if prompt.startswith("+") else prompt
                    conversation = prompt + answer(prompt, turned)
            except GlassformerError as error:
                console.print(str(error), style="red", markup=False)
            except KeyboardInterrupt:
                console.print()
            except EOFError:
                console.print()
                return


def command(
    console: Console, generator: Generator, line: str, turned: dict[str, Any], given: dict[str, Any]
) -> dict[str, Any]:
    """Executes a line that starts with a slash; returns the settings after it."""
    verb, _, rest = line.partition(" ")
    if verb == "/set":
        turned = {**turned, **knobs_of([rest])}
        generator.resolve_config(turned)  # raises an error if they are invalid
    elif verb == "/reset":
        turned = given
    elif verb != "/options":
        raise ConfigError(f"There is no {verb}; there are /set option=value, /options and /reset.")
    shown = ", ".join(f"{name}={value!r}" for name, value in turned.items())
    console.print(shown or "all options at their defaults", style="dim", markup=False)
    return turned


@contextmanager
def history() -> Iterator[None]:
    """Restores and saves the line history of earlier dialogs, if readline is available."""
    try:
        import readline
    except ImportError:  # Windows
        yield
        return
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "glassformer" / "history"
    with suppress(OSError):  # first use, or no writable folder
        path.parent.mkdir(parents=True, exist_ok=True)
        readline.read_history_file(path)
    readline.set_history_length(1000)
    try:
        yield
    finally:
        with suppress(OSError):
            readline.write_history_file(path)
