"""glassformer embed: texts as vectors."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import (
    Device,
    Dtype,
    Encoding,
    Field,
    Files,
    FormOption,
    Inputs,
    OnErrorOption,
    Record,
    Source,
    Text,
    Whole,
    field_of,
    say,
)
from glassformer.cli.outputs import AsJson, Column, Rows, about, progress
from glassformer.errors import GlassformerError
from glassformer.source import load
from glassformer.tasks.embed import Embedder
from glassformer.tasks.npy import whole_matrix

SHOWN = 4  # numbers of a vector, for people

PoolingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pooling",
        help="mean, first, last, max, weighted, root; else the model's own, or the mean.",
    ),
]


def embed(
    model: Source,
    text: Text = None,
    file: Files = None,
    form: FormOption = None,
    field: Field = "text",
    whole: Whole = False,
    encoding: Encoding = "utf-8",
    on_error: OnErrorOption = "stop",
    pooling: PoolingOption = None,
    normalize: Annotated[
        bool | None,
        typer.Option("--normalize/--no-normalize", help="Vectors of length 1; else as the model."),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="One of the model's own, by its name: query, ...")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="In tokens; else as model and tokenizer say.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .npy file for the vectors, a row a text.")
    ] = None,
    as_json: AsJson = False,
    device: Device = "cpu",
    dtype: Dtype = None,
) -> None:
    """Make a vector of every text, near those of texts that say the like."""
    if out is not None and as_json:
        raise GlassformerError("Give one of --out and --json.")
    inputs = Inputs(text, file, form=form, encoding=encoding, whole=whole, on_error=on_error)
    loaded = load(model, device, dtype).pack()
    embedder = Embedder.of(loaded, pooling, normalize=normalize, prompt=prompt, length=max_length)
    rows = Rows((Column("vector", 11 * SHOWN + 3), Column("text")), as_json)

    def question(record: Record) -> str:
        return field_of(record, field if inputs.word is None else "text")

    into = nullcontext() if out is None else whole_matrix(out, embedder.width)
    with progress(inputs, "embedding") as passed, into as matrix:
        for record, vector in passed(inputs.answers(question, embedder)):
            if matrix is not None:
                matrix.add(vector)
                continue
            read = question(record)
            numbers = " ".join(f"{number:10.6f}" for number in vector[:SHOWN])
            said = about(record, {"text": read, "vector": vector.tolist()})
            rows.add((f"{numbers} ...", read), said)
        inputs.end()
    if embedder.cut:
        say(f"{embedder.cut:,} texts were longer than the model reads, and cut.")
    if matrix is not None:
        print(f"{matrix.rows:,} vectors of {matrix.width:,} numbers are in {out}.")
