"""glassformer families: supported architectures, and their measured equality to the reference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from glassformer.cli.printing import output_console
from glassformer.cli.verbs import verb

WIDE = 80  # columns of a terminal
MEASURED = Path(__file__).parent.parent / "families" / "equality.json"


@dataclass(frozen=True)
class FamilyRow:
    family: str
    model_type: str
    name: str
    difference: float | None

    @property
    def shown(self) -> str:
        return "not measured" if self.difference is None else f"{self.difference:.1e}"


def rows() -> Iterator[FamilyRow]:
    from glassformer.families import classes_of
    from glassformer.families import families as known_families

    content = json.loads(MEASURED.read_text("utf-8")) if MEASURED.is_file() else {"differences": {}}
    for model_type, family in sorted(known_families().items()):
        for name in classes_of(family, model_type):
            if family.TINY:  # compared with a reference
                yield FamilyRow(family.NAME, model_type, name, content["differences"].get(name))


@verb("families", group="Look inside")
def families(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the families, their classes and the measured differences.

    A difference is the largest one to the reference implementation that was measured.

    $ glassformer families
    """
    if as_json:
        print(json.dumps([asdict(row) for row in rows()], indent=2))
        return
    console = output_console()
    narrow = console.width < WIDE  # then the family is a row above its classes
    table = Table(box=None, pad_edge=False)
    for column in () if narrow else ("family", "model type"):
        table.add_column(column)
    table.add_column("class", overflow="fold", no_wrap=not narrow)
    table.add_column("largest difference", justify="right", no_wrap=not narrow, min_width=12)
    last = None
    for row in rows():
        head = ("", "") if row.model_type == last else (row.family, row.model_type)
        if narrow and row.model_type != last:
            table.add_row(f"{row.family} ({row.model_type})", "", style="bold")
        table.add_row(*(() if narrow else head), row.name, row.shown)
        last = row.model_type
    console.print(table)
