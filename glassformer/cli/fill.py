"""glassformer fill: what belongs in the gaps of a text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

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
)
from glassformer.cli.outputs import AsJson, Column, Rows, about, progress
from glassformer.source import load
from glassformer.tasks.fill import filler
from glassformer.tasks.filled import Filled

COLUMNS = (
    Column("gap", 3, "cyan"),
    Column("prob", 8, right=True),
    Column("words", 24, "cyan"),
    Column("text"),
)


def fill(
    model: Source,
    text: Text = None,
    file: Files = None,
    form: FormOption = None,
    field: Field = "text",
    whole: Whole = False,
    encoding: Encoding = "utf-8",
    on_error: OnErrorOption = "stop",
    top: Annotated[int, typer.Option(min=1, help="Candidates a gap, and fillings a text.")] = 5,
    tokens: Annotated[
        int, typer.Option(min=1, help="How many a gap may have; for masked language models.")
    ] = 1,
    among: Annotated[
        list[str] | None, typer.Option(help="A word that comes into question; may be repeated.")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="How many fillings are followed at a time.")] = 8,
    as_json: AsJson = False,
    device: Device = "cpu",
    dtype: Dtype = None,
) -> None:
    """Fill the gaps of texts, marked by ___: words that fit each, and all of them together."""
    inputs = Inputs(text, file, form=form, encoding=encoding, whole=whole, on_error=on_error)
    work = filler(load(model, device, dtype).pack(), top=top, tokens=tokens, among=among, beam=beam)
    rows = Rows(COLUMNS, as_json)

    def question(record: Record) -> str:
        return field_of(record, field if inputs.word is None else "text")

    with progress(inputs, "filling") as passed:
        for record, result in passed(inputs.answers(question, work)):
            said = about(record, {"source": question(record), **result.record()})
            if as_json:
                rows.add((), said)
                continue
            for cells in table(result):
                rows.add(cells, said)
    inputs.end()


def table(result: Filled) -> Iterator[tuple[str, str, str, str]]:
    """Where there are several gaps, those by themselves first."""
    several = len(result.gaps) > 1
    for number, gap in enumerate(result.gaps if several else (), 1):
        for one in gap.candidates:
            yield str(number), percent(one.probability), one.text, ""
    for filling in result.fillings:
        words = " | ".join(filling.words)
        yield ("all" if several else "1"), percent(filling.probability), words, filling.text


def percent(probability: Any) -> str:
    return "" if probability is None else f"{probability:.2%}"
