"""Layout of help texts for any terminal width, and of usage errors as one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from textwrap import wrap
from typing import Any, cast

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

# UsageError of click, or of typer's copy of click
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
WIDEST = 100  # longer lines are hard to read
NARROW = 60  # below this width, descriptions are on a line below the names
NAMES = 30  # longer names have a line of their own
EXAMPLE = "$ "
KINDS = {  # typer's type names, and those shown to users
    "str": "TEXT",
    "list[str]": "TEXT",
    "int": "N",
    "int range": "N",
    "float": "X",
    "path": "PATH",
    "list[path]": "PATH",
    "file": "FILE",
    "directory": "FOLDER",
}
OTHER_WORDS = {  # options of other programs, and ours
    "--bs": "--batch-size",
    "--lr": "--learning-rate",
    "--model": "--base",
    "--model-name-or-path": "--base",
    "--num-epochs": "--epochs",
    "--num-train-epochs": "--epochs",
    "--output": "--out",
    "--output-dir": "--out",
    "--per-device-train-batch-size": "--batch-size",
    "--train-batch-size": "--batch-size",
}
Row = tuple[str, str]


class Verb(TyperCommand):
    """Command with this help layout; its docstring ends with an example: `$ ...`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        show(ctx, [*arguments(ctx), *options(ctx)])


class Verbs(TyperGroup):
    """Group of commands with this help layout, grouped by help panel."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        longest = max(map(len, self.commands))
        groups = {
            group: [(f"{name:{longest}}", said) for name, said in rows]
            for group, rows in self.rows(ctx).items()
        }
        show(ctx, [*groups.items(), *options(ctx)])

    def rows(self, ctx: Any) -> dict[str, list[Row]]:
        """Returns the names of the commands with their summaries, by help panel."""
        found: dict[str, list[Row]] = {}
        for name in self.list_commands(ctx):
            verb: Any = self.get_command(ctx, name)
            panel = verb.rich_help_panel or "Verbs"
            found.setdefault(panel, []).append((name, first_sentence(verb.help)))
        return found

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Treats `help VERB` as `VERB --help`."""
        wants_help = args[:1] == ["help"]
        return super().parse_args(ctx, [*args[1:], "--help"] if wants_help else args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = nearest(args[0], self.list_commands(ctx))
            way = near or f"{ctx.command_path} --help lists them."
            raise UsageError(f"There is no verb {args[0]!r}; {way}", ctx)
        return super().resolve_command(ctx, args)


def format_usage_error(error: Any) -> str:
    """Returns a usage error as one sentence with a hint; empty if the help was shown instead."""
    message: str = error.format_message()
    message = message.replace("Value error, ", "").replace("argument(s)", "argument")
    message = re.sub(
        r"Input should be a valid (\w+), unable to parse.*", r"it must be a valid \1.", message
    )
    if not message.strip() or "; " in message:
        return message.strip()
    if hasattr(error, "possibilities"):  # click's NoSuchOption
        named = error.option_name
        there = [name for one in error.ctx.command.get_params(error.ctx) for name in names_of(one)]
        meant = OTHER_WORDS.get(named.replace("_", "-"))
        near = f"did you mean {meant}?" if meant in there else nearest(named, there)
        if near is not None:
            return f"There is no option {named}; {near}"
        message = f"There is no option {named}"
    missing = getattr(error, "param", None)
    if missing is not None and missing.param_type_name == "argument":
        message = message.replace(f"'{missing.name}'", name_of(missing))
    path = "glassformer" if error.ctx is None else error.ctx.command_path
    return f"{message.rstrip('.')}; {path} --help says more."


def print_error(error: str, quiet: bool = False) -> None:
    console = Console(stderr=True, soft_wrap=True, quiet=quiet)
    with suppress(OSError):  # the exit code also reports the error
        console.print("[bold red]error:[/] " + error.replace("[", r"\["), highlight=False)


def nearest(word: str, known: Sequence[str]) -> str | None:
    bare = {name.strip("-"): name for name in known}  # the dashes are no likeness
    near = get_close_matches(word.strip("-"), bare, 1, cutoff=0.7)
    return f"did you mean {bare[near[0]]}?" if near else None


def names_of(parameter: Any) -> list[str]:
    named = parameter.param_type_name == "option"
    return [*parameter.opts, *parameter.secondary_opts] if named else []


def show(ctx: Any, groups: Sequence[tuple[str, Sequence[Row]]]) -> None:
    console = Console(highlight=False, markup=False)
    width = min(console.width, WIDEST)
    description, examples = split_help(ctx.command.help or "")

    def line(text: str = "", *styles: tuple[str, str]) -> None:
        shown = Text(text)
        for part, style in styles:
            shown.highlight_words([part], style)
        console.print(shown, soft_wrap=True)

    def title(text: str) -> None:
        line()
        console.print(Text(text, "bold"), soft_wrap=True)

    first = f"Usage: {ctx.command_path} "
    hang = " " * (len(first) if width >= NARROW else 4)
    for part in wrap(first + " ".join(pieces(ctx)), width, subsequent_indent=hang):
        line(part, ("Usage:", "bold"))
    for paragraph in description:
        line()
        for part in wrap(paragraph, width):
            line(part)
    for name, rows in groups:
        title(name)
        for left, lines in columns(rows, width):
            console.print(Text(left, "cyan").append(lines[0], "default"), soft_wrap=True)
            for part in lines[1:]:
                line(part)
    if examples:
        title("Example" if len(examples) == 1 else "Examples")
        for example in examples:
            line(f"  {example}")


def columns(rows: Sequence[Row], width: int) -> Iterator[tuple[str, list[str]]]:
    """Yields each name with the lines of its description, beside it if there is room."""
    fitting = [len(left) for left, _ in rows if len(left) <= NAMES]
    indent = 6 if width < NARROW or not fitting else max(fitting) + 4
    for left, right in rows:
        lines = wrap(right, max(width - indent, 20), break_on_hyphens=False) or [""]
        below = [" " * indent + part for part in lines]
        if width < NARROW or len(left) > NAMES:
            yield f"  {left.rstrip()}", ["", *below]
        else:
            yield f"  {left:{indent - 2}}", [lines[0], *below[1:]]


def split_help(text: str) -> tuple[list[str], list[str]]:
    """Splits a docstring into paragraphs and example commands."""
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text.replace("\f", ""))]
    examples = [
        line.strip().removeprefix(EXAMPLE)
        for part in paragraphs
        if part.startswith(EXAMPLE)
        for line in part.splitlines()
    ]
    return [" ".join(p.split()) for p in paragraphs if p and not p.startswith(EXAMPLE)], examples


def first_sentence(text: str | None) -> str:
    parts, _ = split_help(text or "")
    return re.split(r"(?<=\.) ", parts[0])[0] if parts else ""


def pieces(ctx: Any) -> Iterator[str]:
    if isinstance(ctx.command, TyperGroup):
        yield from ("[OPTIONS]", "VERB", "...")
        return
    yield "[OPTIONS]"
    for one in ctx.command.get_params(ctx):
        if one.param_type_name == "argument":
            yield name_of(one) if one.required else f"[{name_of(one)}]"


def name_of(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.nargs == 1 or name.endswith("...") else f"{name}..."


def arguments(ctx: Any) -> Iterator[tuple[str, list[Row]]]:
    found = [one for one in ctx.command.get_params(ctx) if one.param_type_name == "argument"]
    if found:
        yield "Arguments", [(name_of(one), one.help or "") for one in found]


def options(ctx: Any) -> Iterator[tuple[str, list[Row]]]:
    """Yields options by help panel; those without one come first."""
    groups: dict[str, list[Row]] = {"Options": []}
    for one in ctx.command.get_params(ctx):
        record = one.get_help_record(ctx)
        if record is not None and one.param_type_name == "option":
            panel = getattr(one, "rich_help_panel", None) or "Options"
            groups.setdefault(panel, []).append((kinds_named(record[0]), plain(record[1])))
    yield from groups.items()


def kinds_named(left: str) -> str:
    """Replaces type names: `--top <int range>` becomes `--top N`; choices stay as they are."""
    return re.sub(r"<(.*?)>", lambda kind: KINDS.get(kind[1], kind[1]), left)


def plain(right: str) -> str:
    """Removes typer's escapes and ranges such as `x>=1`."""
    right = right.replace("\\[", "[")
    right = re.sub(r"; x(>|>=|<|<=)[^\];]*|; [\d.]+<=x<=[\d.]+", "", right)
    return re.sub(r"\[(x>=[\d.]+|[\d.]+<=x<=[\d.]+)\]", "", right).strip()
