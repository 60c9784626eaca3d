"""glassformer summarize: what texts say, in few words."""

from __future__ import annotations

from functools import partial
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
    say,
)
from glassformer.cli.outputs import AsJson, about, print_json, progress
from glassformer.cli.rewriting import (
    FRAME,
    JUDGE,
    BatchSize,
    Beams,
    Beside,
    Length,
    LengthPenalty,
    MaxNewTokens,
    NoRepeat,
    Prefix,
    Quantize,
    Reference,
    ReferenceField,
    Separator,
    Sets,
    text_in,
    turned,
)
from glassformer.metrics.texts import summary_figures
from glassformer.source import load
from glassformer.tasks.summarize import Long, Summarizer

LongOption = Annotated[
    Long,
    typer.Option(
        "--long",
        help="A text longer than the model reads: cut it, or split it and summarize its parts, and "
        "then their summaries.",
        rich_help_panel=FRAME,
    ),
]
Stemmer = Annotated[
    bool,
    typer.Option(
        "--stemmer/--no-stemmer",
        help="ROUGE by the stems of English words.",
        rich_help_panel=JUDGE,
    ),
]


def summarize(
    context: typer.Context,
    model: Source,
    text: Text = None,
    file: Files = None,
    form: FormOption = None,
    field: Field = "text",
    whole: Whole = False,
    encoding: Encoding = "utf-8",
    on_error: OnErrorOption = "stop",
    as_json: AsJson = False,
    device: Device = "cpu",
    dtype: Dtype = None,
    quantize: Quantize = None,
    num_beams: Beams = None,
    length_penalty: LengthPenalty = None,
    max_new_tokens: MaxNewTokens = None,
    no_repeat_ngram_size: NoRepeat = None,
    batch_size: BatchSize = None,
    sets: Sets = None,
    long: LongOption = "cut",
    length: Length = None,
    prefix: Prefix = None,
    separator: Separator = None,
    reference: Reference = None,
    reference_field: ReferenceField = None,
    stemmer: Stemmer = True,
) -> None:
    """Say in few words what texts say: a summary for a line, a record, or a whole file."""
    inputs = Inputs(text, file, form=form, encoding=encoding, whole=whole, on_error=on_error)
    beside = Beside(inputs, reference, reference_field, encoding)
    summarizer = Summarizer(
        load(model, device, dtype, quantize=quantize),
        long=long,
        length=length,
        prefix=prefix,
        separator=separator,
        **turned(context, sets),
    )
    longer = unread = 0

    def question(record: Record) -> str:
        read = text_in(record, field if inputs.word is None else "text")
        if beside:
            beside.references(record)
        return read

    with progress(inputs, "summarizing") as passed:
        for record, result in passed(inputs.answers(question, summarizer.stream)):
            longer, unread = longer + (result.unread > 0), unread + result.unread
            if as_json:
                print_json({**about(record, {"text": question(record)}), **result.record()})
            else:
                print(result.text, flush=True)
            if beside:
                beside.add(result.text, record)
    if unread:
        say(
            f"{longer:,} texts were longer than the model reads, {unread:,} tokens were left out "
            "(--long split reads all)."
        )
    inputs.end()
    beside.end(partial(summary_figures, stemmer=stemmer), as_json)
