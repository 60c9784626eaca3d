"""glassformer index: search index of a folder of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

from glassformer.cli.embed import PoolingOption
from glassformer.cli.model_options import with_adapter
from glassformer.cli.output_paths import OutputPath
from glassformer.cli.printing import print_json, print_note, progress_bar
from glassformer.cli.shared_options import (
    AdapterOption,
    AsJson,
    Device,
    Download,
    OnErrorOption,
    zoo_names,
)
from glassformer.cli.verbs import verb


@verb("index", group="Search")
def index(
    folder: Annotated[
        Path,
        typer.Argument(metavar="INDEX", help="The folder of the index."),
        OutputPath(continued=True),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="A model's folder, or zoo:NAME; an existing index stores its model.",
            autocompletion=zoo_names,
        ),
    ] = None,
    adapter: AdapterOption = None,
    download: Download = False,
    texts: Annotated[
        Path | None,
        typer.Option(help="The folder of texts; stored in the index, and may be changed."),
    ] = None,
    pattern: Annotated[
        list[str] | None,
        typer.Option(help="Files to read, such as '*.log'; by default *.txt, *.md, *.rst."),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Maximum number of tokens in a passage (200).")
    ] = None,
    pooling: PoolingOption = None,
    vector_dtype: Annotated[
        Literal["float16", "float32"] | None,
        typer.Option(help="Data type of the vectors on disk (float16)."),
    ] = None,
    on_error: OnErrorOption = "stop",
    as_json: AsJson = False,
    device: Device = "cpu",
) -> None:
    """Make or update an index of a folder of texts.

    Only new or changed files are read. After Ctrl-C, the same command resumes the work.

    $ glassformer index notes.index --model real:minilm --texts notes
    """
    from glassformer.loading import open_index

    given = {
        "patterns": pattern,
        "max_length": max_length,
        "pooling": pooling,
        "vector_dtype": vector_dtype,
    }
    settings: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    made = open_index(folder, with_adapter(model, adapter, device), texts, device, **settings)
    try:
        with watched() as watch:
            changes = made.update(texts, on_error=on_error, progress=watch)
    except KeyboardInterrupt:
        print_note(
            f"interrupted; {len(made):,} passages are in {folder}, and the same command resumes."
        )
        raise typer.Exit(130) from None
    for why in changes.skipped.values():
        print_note(f"{why.rstrip('.')}; skipped.")
    if as_json:
        print_json({**asdict(changes), "files": len(made.files), "total": len(made)})
        return
    parts = {
        "new": len(changes.added),
        "changed": len(changes.changed),
        "removed": len(changes.removed),
        "unchanged": changes.unchanged,
        "skipped": len(changes.skipped),
    }
    what = ", ".join(f"{count:,} {word}" for word, count in parts.items() if count)
    print(f"{len(made):,} passages of {len(made.files):,} files in {folder} ({what or 'no files'})")


@contextmanager
def watched() -> Iterator[Callable[[int, int], None]]:
    console = Console(stderr=True)
    columns = (TextColumn("indexing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with progress_bar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)
