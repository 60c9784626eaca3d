"""glassformer summarize: summaries of texts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from glassformer.cli.option_groups import grouped
from glassformer.cli.printing import about, print_json, print_note, progress
from glassformer.cli.seq2seq_options import FRAME, JUDGE, ReferenceOptions, Seq2SeqOptions
from glassformer.cli.text_task import TextTaskOptions
from glassformer.cli.verbs import verb

if TYPE_CHECKING:
    from glassformer.cli.input_records import Record

LongOption = Annotated[
    Literal["cut", "split"],
    typer.Option(
        "--long",
        help="Truncate a text that is too long, or split it and summarize its parts, and then "
        "their summaries.",
        rich_help_panel=FRAME,
    ),
]
Stemmer = Annotated[
    bool,
    typer.Option(
        "--stemmer/--no-stemmer",
        help="Compute ROUGE on the stems of English words.",
        rich_help_panel=JUDGE,
    ),
]


@verb("summarize", group="Write")
@grouped
def summarize(
    options: TextTaskOptions,
    writing: Seq2SeqOptions,
    judging: ReferenceOptions,
    long: LongOption = "cut",
    stemmer: Stemmer = True,
) -> None:
    """Summarize texts.

    A line, a record or a whole file has one summary.

    $ glassformer summarize path/to/model --file report.txt --whole
    """
    from glassformer.cli.reference_scores import text_in
    from glassformer.metrics.rouge import porter_stemmer
    from glassformer.metrics.translation import summary_scores
    from glassformer.tasks.summarize import Summarizer

    inputs = options.inputs(judging.reference_field)
    scores = judging.reference_scores(inputs, options.encoding)
    if scores and stemmer:
        porter_stemmer()
    loaded = options.load(quantize=writing.quantize)
    summarizer = Summarizer(loaded, long=long, **writing.options())
    longer = unread = 0

    def question(record: Record) -> str:
        read = text_in(record, options.column)
        if scores:
            scores.references(record)
        return read

    with progress(inputs, "summarizing") as passed:
        for record, result in passed(inputs.answers(question, summarizer)):
            longer, unread = longer + (result.unread > 0), unread + result.unread
            if options.as_json:
                print_json({**about(record, {"text": question(record)}), **result.record()})
            else:
                print(result.text, flush=True)
            if scores:
                scores.add(result.text, record)
    if unread:
        print_note(
            f"{longer:,} texts were too long for the model, {unread:,} tokens were left out "
            "(--long split reads all)."
        )
    scores.end(partial(summary_scores, stemmer=stemmer), options.as_json)
    inputs.end()
