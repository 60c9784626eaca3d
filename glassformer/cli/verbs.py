"""Discovery of the verbs: the modules of this folder that declare one with `@verb`.

The names, groups and summaries are read from the source text, so that `glassformer --help` imports
no verb, and a verb no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import typer

from glassformer.cli.help_layout import Row, Verb, Verbs, first_sentence
from glassformer.cli.output_paths import with_output_checks
from glassformer.cli.printing import print_note

GROUPS = (
    "Look inside",
    "Write",
    "Read",
    "Search",
    "Train and evaluate",
)  # in this order in the help
DECLARED = re.compile(
    r'^(?:@|\w+ = )verb\("(?P<name>[\w-]+)", group="(?P<group>[^"]+)"\).*?"""(?P<help>.*?)"""',
    re.DOTALL | re.MULTILINE,
)
Command = TypeVar("Command", bound=Callable[..., None] | typer.Typer)
_commands: dict[str, Callable[..., None] | typer.Typer] = {}


def verb(name: str, *, group: str) -> Callable[[Command], Command]:
    """Returns a decorator that declares a function, or a group of commands, as a verb.

    Args:
        name: The name of the verb.
        group: The heading of the help under which it is listed.

    >>> @verb("zoo", group="Look inside")
    """

    def declare(command: Command) -> Command:
        _commands[name] = command
        return command

    return declare


class DeclaredVerb(NamedTuple):
    """A verb as its module declares it."""

    module: str
    group: str
    summary: str  # the first sentence of its help


@cache
def declared_verbs() -> Mapping[str, DeclaredVerb]:
    """Returns all verbs by name, in the order of the help."""
    found: dict[str, DeclaredVerb] = {}
    for path in Path(__file__).parent.glob("*.py"):
        said = DECLARED.search(path.read_text("utf-8"))
        if said is not None:
            summary = first_sentence(said["help"])
            found[said["name"]] = DeclaredVerb(path.stem, said["group"], summary)

    def place(item: tuple[str, DeclaredVerb]) -> tuple[int, str, str]:
        name, group = item[0], item[1].group
        return GROUPS.index(group) if group in GROUPS else len(GROUPS), group, name

    return dict(sorted(found.items(), key=place))


SYNONYMS = {"finetune": "train", "fine-tune": "train", "eval": "evaluate"}


def canonical(name: str) -> str:
    """Returns the verb that another word for it, such as "finetune" or "ner", stands for."""
    from glassformer.tasks.task_words import verb_of

    found = name if name in declared_verbs() else SYNONYMS.get(name) or verb_of(name) or name
    return found if found in declared_verbs() else name


class VerbCommands(Mapping[str, Any]):
    """The commands by name; a command's module is imported when the command is looked up."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = build_command(name, declared_verbs()[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(declared_verbs())

    def __len__(self) -> int:
        return len(declared_verbs())


def build_command(name: str, declared: DeclaredVerb) -> Any:
    """Imports the module of a verb and returns typer's command."""
    import_module(f"{__package__}.{declared.module}")
    command = _commands[name]
    app = typer.Typer(callback=lambda: None)  # with a callback, typer makes a group of one command
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, rich_help_panel=declared.group)
    else:
        app.command(name, cls=Verb, rich_help_panel=declared.group)(with_output_checks(command))
    return typer.main.get_group(app).commands[name]


class VerbGroup(Verbs):
    """The command `glassformer`, whose subcommands are the declared verbs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = VerbCommands()  # type: ignore[assignment]

    def invoke(self, ctx: Any) -> Any:
        """Runs a verb. One that says nothing of an interruption itself gets one sentence."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print_note("Interrupted.")
            raise typer.Exit(130) from None

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, canonical(cmd_name))

    def rows(self, ctx: Any) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for name, declared in declared_verbs().items():
            found.setdefault(declared.group, []).append((name, declared.summary))
        return found
