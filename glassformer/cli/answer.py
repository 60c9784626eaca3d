"""glassformer answer: extractive question answering."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.model_options import ModelOptions
from glassformer.cli.option_groups import grouped
from glassformer.cli.output_paths import OutputPath
from glassformer.cli.printing import (
    WHERE,
    Column,
    ResultRows,
    about,
    place_of,
    print_json,
    print_note,
    progress,
)
from glassformer.cli.shared_options import READ, AsJson, Encoding, Files, HeadOption, OnErrorOption
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError
from glassformer.storage.files import write_text

if TYPE_CHECKING:
    from glassformer.cli.input_records import Record
    from glassformer.tasks.answer import Answer

Question = Annotated[
    str | None,
    typer.Argument(
        help="The question, or a file of records; by default each record has a question."
    ),
]
Context = Annotated[
    str | None,
    typer.Argument(help="The text with the answer, or a file; - or nothing reads standard input."),
]
FormOption = Annotated[
    Literal["text", "jsonl", "csv", "tsv", "squad"] | None,
    typer.Option(
        "--format",
        help="The format of files and standard input; by default from the file's ending.",
        rich_help_panel=READ,
    ),
]
Squad = Annotated[
    list[str] | None,
    typer.Option("--squad", help="SQuAD files to evaluate by exact match and F1."),
]
Output = Annotated[
    Path | None,
    typer.Option("--out", help="File for the answers by id, as SQuAD's script reads them."),
    OutputPath(default=lambda given: Path("predictions.json") if given["squad"] else None),
]
COLUMNS = (
    Column("prob", 6, right=True),
    Column("from", 7, right=True),
    Column("to", 7, right=True),
    Column("answer", 32, "cyan"),
    Column("question"),
)


@verb("answer", group="Read")
@grouped
def answer(
    chosen: ModelOptions,
    question: Question = None,
    context: Context = None,
    file: Files = None,
    form: FormOption = None,
    squad: Squad = None,
    out: Output = None,
    encoding: Encoding = None,
    on_error: OnErrorOption = "stop",
    threshold: Annotated[
        float | None,
        typer.Option(help="The smallest margin of an answer; below it there is no answer."),
    ] = None,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Number of alternatives.")] = 1,
    max_answer_length: Annotated[
        int, typer.Option(min=1, help="Maximum length of an answer in tokens.")
    ] = 30,
    max_length: Annotated[int | None, typer.Option(help="Length of a window in tokens.")] = None,
    stride: Annotated[
        int | None, typer.Option(help="Distance between the starts of two windows, in tokens.")
    ] = None,
    head: HeadOption = None,
    as_json: AsJson = False,
) -> None:
    """Find answers to questions in texts of any length.

    $ glassformer answer path/to/model "Who wrote it?" "Ada Lovelace wrote it in 1843."
    """
    from glassformer.cli.input_records import InputRecords, field_of
    from glassformer.cli.path_arguments import file_named
    from glassformer.metrics.squad import right_answers, squad_scores
    from glassformer.tasks.answer import Answerer

    if squad and (file or context is not None or question is not None):
        raise ConfigError("Give one of QUESTION, --file and --squad.")
    if question is not None and (path := file_named(question, form)) is not None:
        if file or context is not None:
            raise ConfigError(f"{question} is a file; give the question itself.")
        question, file = None, [str(path)]
    inputs = InputRecords(
        context,
        squad or file,
        form="squad" if squad else form,
        stdin_form="text" if question is not None else "jsonl",
        encoding=encoding,
        whole=True,
        on_error=on_error,
    )
    answerer = Answerer(
        chosen.load().pack(),
        threshold=threshold,
        n_best=n_best,
        max_answer_length=max_answer_length,
        max_length=max_length,
        stride=stride,
        head=head,
    )

    def question_and_context(record: Record) -> tuple[str, str]:
        one = field_of(record, "question", None) if question is None else question
        if "answers" in record:
            right_answers(record)
        return one, field_of(record, context_in(record), None)

    several = inputs.word is None
    rows = ResultRows((WHERE, *COLUMNS) if several else COLUMNS, as_json)
    given: dict[str, str] = {}
    right: dict[str, list[str]] = {}
    with progress(inputs, "answering", shown=not squad) as passed:
        for record, result in passed(inputs.answers(question_and_context, answerer)):
            id = str(record.get("id", record["where"]))
            given[id] = result.text
            if "answers" in record:
                right[id] = right_answers(record)
            if not squad:
                place = (place_of(record),) if several else ()
                show(rows, record, question_and_context(record)[0], result, n_best, as_json, place)
    if out is not None:
        write_text(out, json.dumps(given, ensure_ascii=False, indent=1) + "\n")
        print_note(f"{len(given):,} answers written to {out}.")
    if right:
        show_scores(squad_scores(given, right), as_json)
    inputs.end()


def context_in(record: Record) -> str:
    """Returns the name of the context column; a plain text is a context."""
    return "text" if "text" in record and "context" not in record else "context"


def show(
    rows: ResultRows,
    record: Record,
    question: str,
    result: Answer,
    n_best: int,
    as_json: bool,
    where: tuple[str, ...],
) -> None:
    output: dict[str, Any] = {**about(record, {"question": question}), **result.record()}
    if n_best == 1:
        del output["alternatives"]
    if as_json or result.start is None or n_best == 1:
        place = ("-", "-") if result.start is None else (str(result.start), str(result.end))
        cells = f"{result.probability:.4f}", *place, result.text or "-", question
        rows.add((*where, *cells), output)
        return
    for span in result.alternatives:
        place = str(span.start), str(span.end)
        rows.add((*where, f"{span.probability:.4f}", *place, span.text, question), output)


def show_scores(scores: dict[str, float], as_json: bool) -> None:
    if as_json:
        print_json(scores)
        return
    rows = ResultRows((Column("metric", 16, "cyan"), Column("value", 9, right=True)), as_json=False)
    for name, value in scores.items():
        rows.add((name, f"{value:.2f}" if isinstance(value, float) else str(value)), {})
