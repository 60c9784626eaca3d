"""glassformer search: passages of an index that are nearest to a query."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.model_options import with_adapter
from glassformer.cli.printing import Column, ResultRows, about, progress
from glassformer.cli.shared_options import (
    AdapterOption,
    AsJson,
    Device,
    Download,
    Encoding,
    Field,
    Files,
    FormOption,
    OnErrorOption,
    Text,
)
from glassformer.cli.verbs import verb

if TYPE_CHECKING:
    from glassformer.cli.input_records import Record


@verb("search", group="Search")
def search(
    folder: Annotated[
        Path, typer.Argument(metavar="INDEX", help="The folder of an index, made by `index`.")
    ],
    question: Text = None,
    file: Files = None,
    form: FormOption = None,
    field: Field = None,
    encoding: Encoding = None,
    on_error: OnErrorOption = "stop",
    top: Annotated[int, typer.Option(min=1, help="Number of passages.")] = 5,
    model: Annotated[str | None, typer.Option(help="The model's folder, if it has moved.")] = None,
    adapter: AdapterOption = None,
    download: Download = False,
    as_json: AsJson = False,
    device: Device = "cpu",
) -> None:
    """Find the passages of an index that are nearest to a question.

    $ glassformer search notes.index "Where is the key?"
    """
    from glassformer.cli.input_records import InputRecords, field_of
    from glassformer.cli.text_column import TextColumn
    from glassformer.loading import open_index

    column = TextColumn(field)
    inputs = InputRecords(
        question, file, form=form, column=column, encoding=encoding, on_error=on_error
    )
    index = open_index(folder, with_adapter(model, adapter, device), device=device)
    several = inputs.word is None
    question_column = (Column("question", 24),) if several else ()
    rows = ResultRows(
        (*question_column, Column("score", 7, "cyan"), Column("where", 32), Column("text")), as_json
    )

    def text_of(record: Record) -> str:
        return field_of(record, field or "text")

    with progress(inputs, "searching") as passed:
        for record, hits in passed(inputs.answers(text_of, partial(index.stream, top=top))):
            query = text_of(record)
            if as_json:
                found = [hit.record() for hit in hits]
                rows.add((), about(record, {"question": query, "hits": found}))
                continue
            for hit in hits:
                where = f"{hit.file}:{hit.start}-{hit.end}"
                cells = (f"{hit.score:.4f}", where, hit.text)
                rows.add((query, *cells) if several else cells, {})
    inputs.end()
