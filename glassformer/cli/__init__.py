"""The command line interface, with one module per command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from glassformer import __version__
from glassformer.cli.answer import answer
from glassformer.cli.check import check
from glassformer.cli.classify import classify
from glassformer.cli.completion import colons_kept
from glassformer.cli.embed import embed
from glassformer.cli.evaluate import evaluate
from glassformer.cli.families import families
from glassformer.cli.fetch import fetch
from glassformer.cli.fill import fill
from glassformer.cli.generate import generate
from glassformer.cli.help_layout import Misused, Verb, Verbs, mistake, say
from glassformer.cli.index import index
from glassformer.cli.inspect import inspect
from glassformer.cli.lens import lens
from glassformer.cli.open import open_page
from glassformer.cli.output_paths import guarded
from glassformer.cli.printing import is_main_process
from glassformer.cli.runs import runs
from glassformer.cli.scaling import scaling
from glassformer.cli.score import score
from glassformer.cli.search import search
from glassformer.cli.standard_output import checked_output
from glassformer.cli.summarize import summarize
from glassformer.cli.tag import tag
from glassformer.cli.train import train
from glassformer.cli.translate import translate
from glassformer.cli.vectors import vectors
from glassformer.cli.watch import watch
from glassformer.cli.zoo import zoo
from glassformer.errors import GlassformerError, LostProcessError

VERBS: dict[str, dict[str, Callable[..., None]]] = {
    "Look inside": {
        "open": open_page,
        "inspect": inspect,
        "lens": lens,
        "check": check,
        "families": families,
        "zoo": zoo,
        "fetch": fetch,
    },
    "Write": {
        "generate": generate,
        "translate": translate,
        "summarize": summarize,
        "fill": fill,
        "score": score,
    },
    "Read": {"classify": classify, "watch": watch, "tag": tag, "answer": answer},
    "Search": {"embed": embed, "index": index, "search": search},
    "Train and judge": {
        "train": train,
        "evaluate": evaluate,
        "runs": runs,
        "scaling": scaling,
    },
}
app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group, verbs in VERBS.items():
    for name, verb in verbs.items():
        app.command(name, cls=Verb, rich_help_panel=group)(guarded(verb))
app.add_typer(vectors, name="vectors", rich_help_panel="Train and judge")


def show_version(asked: bool) -> None:
    if asked:
        print(f"glassformer {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=show_version, is_eager=True, help="Say the version."
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
    exit with code 1, usage errors with code 2, Ctrl-C with code 130.
    """
    with checked_output():
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
        speaks = is_main_process() or isinstance(error, LostProcessError)
        say(str(error), quiet=not speaks)
        return 1
    except Misused as error:
        said = mistake(error)
        say(said, quiet=not said)
        return 2
    except typer.Abort:  # standard input ended at a question
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # a file that the command has not reported itself
        name = "" if error.filename is None else f" ({error.filename})"
        say(f"A file cannot be read or written: {error.strerror or error}{name}.")
        return 1


def half_imported(package: str) -> bool:
    """Returns whether an import was interrupted: the package is gone, but modules of it remain."""
    parts = (name for name in sys.modules if name.startswith(f"{package}."))
    return package not in sys.modules and any(parts)
