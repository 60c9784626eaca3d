"""Options shared by several commands.

Modules that define the command line import little: a command imports its dependencies (torch!) when
it is called, so that help and completion are fast.
"""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

from glassformer.zoo import PREFIX, names
from glassformer.zoo import published as real

OnError = Literal["stop", "skip"]
Form = Literal["text", "jsonl", "csv", "tsv"]

READ, COMPUTED = "Input", "Computation"  # help panels


def zoo_names(incomplete: str) -> list[str]:
    """Completes model names; if none fits, the shell completes files."""
    prefix = PREFIX if incomplete.startswith(PREFIX) else ""
    known = [*(f"{prefix}{one}" for one in names()), *(f"{real.PREFIX}{one}" for one in real.REAL)]
    return [name for name in known if name.startswith(incomplete)]


Source = Annotated[
    str,
    typer.Argument(
        help="The folder or file of a model, run or adapter, zoo:NAME, real:NAME, or a name on the "
        "hub.",
        autocompletion=zoo_names,
    ),
]
AdapterOption = Annotated[
    str | None,
    typer.Option("--adapter", help="The folder of an adapter, or of a run that trained one."),
]


def allow_downloads(asked: bool) -> bool:
    """Allows downloads from the hub in this process and in those that it starts."""
    if asked:
        os.environ["GLASSFORMER_DOWNLOAD"] = "1"
    return asked


Download = Annotated[
    bool,
    typer.Option(
        "--download",
        help="Get a model that is named as on the hub (org/name) from there.",
        callback=allow_downloads,
    ),
]
Text = Annotated[
    str | None,
    typer.Argument(
        help="The text, or a file; - or nothing reads standard input, one text per line."
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        help="Files or patterns: text, .jsonl, .csv, .tsv; also as .gz.",
        rich_help_panel=READ,
    ),
]
FormOption = Annotated[
    Form | None,
    typer.Option(
        "--format",
        help="The format of files and standard input; by default from the file's ending.",
        rich_help_panel=READ,
    ),
]
Field = Annotated[
    str | None,
    typer.Option(
        help="The column of the text; by default text, or the only text column of a table.",
        rich_help_panel=READ,
    ),
]
Whole = Annotated[
    bool,
    typer.Option(
        "--whole", help="Read a text file as one text, not as one per line.", rich_help_panel=READ
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="Encoding of files and standard input; else UTF-8, or that of the table.",
        rich_help_panel=READ,
    ),
]
OnErrorOption = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        help="Stop at a malformed line, or skip and count it.",
        rich_help_panel=READ,
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...", rich_help_panel=COMPUTED)]
Dtype = Annotated[
    str | None,
    typer.Option(
        help="float32, bfloat16, float16; by default that of the file.", rich_help_panel=COMPUTED
    ),
]
HeadOption = Annotated[
    str | None, typer.Option("--head", help="The name of the head, if the model has several.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
