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

READ, COMPUTED = "What is read", "How it is computed"  # help panels


def zoo_names(incomplete: str) -> list[str]:
    """Completes model names; if none fits, the shell completes files."""
    prefix = PREFIX if incomplete.startswith(PREFIX) else ""
    known = [*(f"{prefix}{one}" for one in names()), *(f"{real.PREFIX}{one}" for one in real.REAL)]
    return [name for name in known if name.startswith(incomplete)]


Source = Annotated[
    str,
    typer.Argument(
        help="A model's folder or file, that of a run or an adapter, zoo:NAME, real:NAME, or its "
        "name on the hub.",
        autocompletion=zoo_names,
    ),
]
AdapterOption = Annotated[
    str | None,
    typer.Option("--adapter", help="An adapter's folder, or that of a run which has trained one."),
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
        help="The text, or the path of a file; - or nothing: standard input, a text a line."
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
        help="Of files and standard input; else by the file's ending.",
        rich_help_panel=READ,
    ),
]
Field = Annotated[
    str | None,
    typer.Option(
        help="The column that has the text; else text, or of a table the only one that can.",
        rich_help_panel=READ,
    ),
]
Whole = Annotated[
    bool,
    typer.Option("--whole", help="A text file is one text, not one a line.", rich_help_panel=READ),
]
Encoding = Annotated[str, typer.Option(help="Of files and standard input.", rich_help_panel=READ)]
OnErrorOption = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        help="A line that cannot be used: stop, or skip and count it.",
        rich_help_panel=READ,
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...", rich_help_panel=COMPUTED)]
Dtype = Annotated[
    str | None,
    typer.Option(
        help="float32, bfloat16, float16; else as the file has it.", rich_help_panel=COMPUTED
    ),
]
HeadOption = Annotated[
    str | None, typer.Option("--head", help="Its name, where the model has several.")
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines, for programs.")]
