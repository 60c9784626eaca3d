"""The command line interface, with one module per verb."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from glassformer import __version__
from glassformer.cli.completion import colons_kept
from glassformer.cli.help_layout import UsageError, format_usage_error, print_error
from glassformer.cli.printing import is_main_process, printed_warnings
from glassformer.cli.standard_output import checked_output
from glassformer.cli.verbs import VerbGroup
from glassformer.errors import GlassformerError, LostProcessError
from glassformer.interrupts import terminable

app = typer.Typer(
    cls=VerbGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(requested: bool) -> None:
    if requested:
        print(f"glassformer {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            callback=show_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """One Transformer, made of glass: look inside models, run them, train them.

    glassformer VERB --help says more of a verb, with an example.

    $ glassformer open
    """


def main() -> None:
    """Runs the command line interface.

    Bad input, a full disk and a closed pipe (`| head -1`) print one sentence on standard error and
    exit with code 1, usage errors with code 2, Ctrl-C, SIGTERM and SIGHUP with code 130.
    """
    with checked_output(), terminable(), printed_warnings():
        code = ended()
    if code == 130 and half_imported("torch"):
        os._exit(130)  # otherwise Python would sometimes end by the signal
    sys.exit(code)


def ended() -> int:
    """Runs the command and returns its exit code."""
    try:
        with colons_kept():
            code: int = app(prog_name="glassformer", standalone_mode=False)
        sys.stdout.flush()
        return code
    except GlassformerError as error:
        reports = is_main_process() or isinstance(error, LostProcessError)
        print_error(str(error), quiet=not reports)
        return 1
    except UsageError as error:
        message = format_usage_error(error)
        print_error(message, quiet=not message)
        return 2
    except typer.Abort:  # standard input ended at a question
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # a file that the command has not reported itself
        name = "" if error.filename is None else f" ({error.filename})"
        print_error(f"A file cannot be read or written: {error.strerror or error}{name}.")
        return 1


def half_imported(package: str) -> bool:
    """Returns whether an import was interrupted: the package is gone, but modules of it remain."""
    parts = (name for name in sys.modules if name.startswith(f"{package}."))
    return package not in sys.modules and any(parts)
