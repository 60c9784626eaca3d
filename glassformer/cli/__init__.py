"""Room 11, the command line: one verb a file. Words come in, tables and exit codes go out."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from glassformer import __version__
from glassformer.cli.answer import answer
from glassformer.cli.check import check
from glassformer.cli.classify import classify
from glassformer.cli.embed import embed
from glassformer.cli.evaluate import evaluate
from glassformer.cli.families import families
from glassformer.cli.fill import fill
from glassformer.cli.generate import generate
from glassformer.cli.index import index
from glassformer.cli.inspect import inspect
from glassformer.cli.open import open_page
from glassformer.cli.runs import runs
from glassformer.cli.scaling import scaling
from glassformer.cli.score import score
from glassformer.cli.search import search
from glassformer.cli.summarize import summarize
from glassformer.cli.tag import tag
from glassformer.cli.train import train
from glassformer.cli.translate import translate
from glassformer.cli.vectors import vectors
from glassformer.cli.watch import watch
from glassformer.errors import GlassformerError
from glassformer.train.launch import LostError, is_main

app = typer.Typer(
    help="One Transformer, made of glass.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(inspect)
app.command()(check)
app.command()(families)
app.command("open")(open_page)
app.command()(generate)
app.command()(score)
app.command()(fill)
app.command()(embed)
app.command()(index)
app.command()(search)
app.command()(classify)
app.command()(tag)
app.command()(answer)
app.command()(watch)
app.command()(evaluate)
app.command()(translate)
app.command()(summarize)
app.command()(train)
app.command()(runs)
app.command()(scaling)
app.add_typer(vectors, name="vectors")


def show_version(asked: bool) -> None:
    if asked:
        print(f"glassformer {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """One Transformer, made of glass."""


def main() -> None:
    """Bad input is one sentence on standard error and exit code 1; Ctrl-C is 130."""
    try:
        app()
    except GlassformerError as error:
        quiet = not (is_main() or isinstance(error, LostError))  # all of torchrun's processes know
        Console(stderr=True, soft_wrap=True, quiet=quiet).print(
            f"[bold red]error:[/] {_plain(error)}"
        )
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _plain(error: Exception) -> str:
    return str(error).replace("[", r"\[")
