"""glassformer embed: text embeddings."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.option_groups import grouped
from glassformer.cli.output_paths import OutputPath, free_file
from glassformer.cli.printing import Column, ResultRows, about, print_note, progress
from glassformer.cli.text_task import TextTaskOptions
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError

SHOWN = 4  # numbers of a vector shown in a terminal

PoolingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pooling",
        help="mean, first, last, max, weighted, root; by default the model's pooling, or the mean.",
    ),
]


@verb("embed", group="Search")
@grouped
def embed(
    options: TextTaskOptions,
    pooling: PoolingOption = None,
    normalize: Annotated[
        bool | None,
        typer.Option(
            "--normalize/--no-normalize",
            help="Scale vectors to length 1; by default as the model does.",
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="The name of a prompt of the model: query, ...")
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(help="Maximum length in tokens; by default that of model and tokenizer."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A .npy file for the vectors, one row per text."),
        OutputPath(),
    ] = None,
) -> None:
    """Compute vectors of texts; similar texts have similar vectors.

    $ glassformer embed zoo:encoder "A dog barks." --out vectors.npy
    """
    from glassformer.tasks.embed import Embedder
    from glassformer.tasks.search.vectors_file import whole_matrix

    if out is not None and options.as_json:
        raise ConfigError("Give one of --out and --json.")
    inputs = options.inputs()
    loaded = options.load().pack()
    embedder = Embedder.of(
        loaded, pooling, normalize=normalize, prompt=prompt, max_length=max_length
    )
    rows = ResultRows((Column("vector", 11 * SHOWN + 3), Column("text")), options.as_json)

    into = nullcontext() if out is None else whole_matrix(out, embedder.width)
    with progress(inputs, "embedding", shown=out is None) as passed, into as matrix:
        for record, vector in passed(inputs.answers(options.text_of, embedder)):
            if matrix is not None:
                matrix.add(vector)
                continue
            read = options.text_of(record)
            if rows.complete:
                cell = " ".join(f"{number:.6f}" for number in vector)
            else:
                cell = " ".join(f"{number:10.6f}" for number in vector[:SHOWN]) + " ..."
            output = about(record, {"text": read, "vector": vector.tolist()})
            if options.as_json and loaded.tokenizer is not None:
                output["unknown_ratio"] = loaded.tokenizer.unknown_ratio(read)
            rows.add((cell, read), output)
        if not inputs.used:
            inputs.end()
        elif matrix is not None and inputs.stopped:
            matrix.path = free_file(matrix.path.with_suffix(".partial.npy"))
    if embedder.cut:
        print_note(f"{embedder.cut:,} texts were too long for the model and truncated.")
    if matrix is not None:
        print(f"{matrix.rows:,} vectors of {matrix.width:,} numbers are in {matrix.path}.")
    inputs.end()
