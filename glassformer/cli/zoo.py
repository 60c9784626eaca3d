"""glassformer zoo: the models that ship with it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from glassformer.cli.help import columns
from glassformer.cli.options import zoo_names
from glassformer.zoo import Animal, card_of, names, read

WIDE = 90  # from which on a table has room


def zoo(
    name: Annotated[
        str | None,
        typer.Argument(help="A model, to read its card.", autocompletion=zoo_names),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the models that ship with Glassformer, or show one's card.

    Everywhere a model is asked for, zoo:NAME is one of these; NAME alone is, too, where no folder
    or file has that name.

    $ glassformer zoo shakespeare
    """
    if name is not None:
        show_card(name, as_json)
        return
    found = [read(one) for one in names()]
    if as_json:
        print(json.dumps([asdict(animal) for animal in found], indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    if console.width >= WIDE:
        console.print(table(found))
        return
    rows = [(one.name, f"{one.about} {', '.join(figures(one))}.") for one in found]
    for left, lines in columns(rows, console.width):
        for line in (left + lines[0], *lines[1:]):
            console.print(line.rstrip(), soft_wrap=True, markup=False)


def show_card(name: str, as_json: bool) -> None:
    from rich.markdown import Markdown

    _, text = card_of(name)
    if as_json:
        print(json.dumps({**asdict(read(name)), "card": text}, indent=2, ensure_ascii=False))
        return
    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text, end="")


def table(found: list[Animal]) -> Table:
    shown = Table(box=None, pad_edge=False)
    shown.add_column("name", style="cyan", no_wrap=True)
    shown.add_column("kind", no_wrap=True)
    for title in ("parameters", "size"):
        shown.add_column(title, justify="right", no_wrap=True)
    shown.add_column("license", no_wrap=True)
    shown.add_column("what it does")
    for one in found:
        kind, parameters, size, license = figures(one)
        shown.add_row(one.name, kind, parameters.split()[0], size, license, one.about)
    return shown


def figures(one: Animal) -> tuple[str, str, str, str]:
    return one.kind, f"{one.parameters:,} parameters", f"{one.size / 1e6:.1f} MB", one.license
