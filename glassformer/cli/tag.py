"""glassformer tag: named entities and parts of speech."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.option_groups import grouped
from glassformer.cli.printing import (
    WHERE,
    Column,
    ResultRows,
    about,
    place_of,
    print_json,
    progress,
)
from glassformer.cli.shared_options import READ, HeadOption
from glassformer.cli.text_task import CommonOptions
from glassformer.cli.verbs import verb
from glassformer.errors import DataError

if TYPE_CHECKING:
    from glassformer.cli.input_records import Record
    from glassformer.metrics.ner import NerReport
    from glassformer.metrics.report_table import ClassScores, ScoreTable
    from glassformer.tasks.tag import Entity, Given, Tagged, TaggedWord

SplitOption = Annotated[
    Literal["words", "characters", "spaces"] | None,
    typer.Option(help="How a text is split into words; by default as the model says."),
]
ShowWords = Annotated[bool, typer.Option("--words", help="Show every word with its tag.")]
ReportOption = Annotated[
    bool,
    typer.Option("--report", help="Compare with the tags in the file: precision, recall, F1."),
]
Strict = Annotated[
    Literal["IOB2", "IOBES"] | None,
    typer.Option(help="In the report, count only entities that follow this scheme."),
]
COLUMNS = (
    Column("tag", 12, "cyan"),
    Column("prob", 6, right=True),
    Column("from", 7, right=True),
    Column("to", 7, right=True),
    Column("text"),
)
REPORT = (
    Column("", 24, "cyan"),
    *(Column(name, 9, right=True) for name in ("precision", "recall", "f1", "support")),
)


@dataclass(frozen=True)
class TagOptions(CommonOptions):
    """Common options, with lists of words and CoNLL files as further inputs."""

    form: Annotated[
        Literal["text", "jsonl", "csv", "tsv", "conll"] | None,
        typer.Option(
            "--format",
            help="The format of files and standard input; by default from the file's ending.",
            rich_help_panel=READ,
        ),
    ] = None
    field: Annotated[
        str | None,
        typer.Option(
            help="The column of the text, or of a list of words; by default words or text."
        ),
    ] = None


@verb("tag", group="Read")
@grouped
def tag(
    options: TagOptions,
    split: SplitOption = None,
    show_words: ShowWords = False,
    with_report: ReportOption = False,
    strict: Strict = None,
    max_length: Annotated[int | None, typer.Option(help="Length of a window in tokens.")] = None,
    stride: Annotated[
        int | None, typer.Option(help="Distance between the starts of two windows, in tokens.")
    ] = None,
    head: HeadOption = None,
) -> None:
    """Find entities in texts, or tag every word.

    $ glassformer tag zoo:reader "Ada Lovelace lived in London."
    """
    from glassformer.cli.text_column import TextColumn
    from glassformer.metrics.ner import entities, report
    from glassformer.tasks.tag import Tagger

    inputs = options.read(options.form, TextColumn(options.field, defaults=("words", "text")))
    loaded = options.load().pack()
    tagger = Tagger(loaded, split=split, max_length=max_length, stride=stride, head=head)

    def question(record: Record) -> Given:
        given = given_of(record, options.field)
        if with_report:
            if "tags" not in record or isinstance(given, str):
                raise DataError("a report needs words and their tags, as CoNLL files have")
            tagger.check(given, record["tags"])
            if strict is not None and entities(record["tags"], strict) != entities(record["tags"]):
                raise DataError(f"the tags do not follow {strict} (--strict)")
        return given

    as_json = options.as_json
    several = inputs.word is None
    rows = ResultRows((WHERE, *COLUMNS) if several else COLUMNS, as_json)
    pairs: list[tuple[list[str], Sequence[str]]] = []
    with progress(inputs, "tagging", shown=not with_report) as passed:
        for record, result in passed(inputs.answers(question, tagger)):
            if with_report:
                pairs.append((result.tags, record["tags"]))
            else:
                place = (place_of(record),) if several else ()
                show(rows, record, result, show_words or not tagger.marked, as_json, place)
    if pairs:
        found, right = zip(*pairs, strict=True)
        show_report(report(found, right, strict), as_json)
    inputs.end()


def given_of(record: Record, field: str | None) -> Given:
    """Returns the text or the list of words of a record."""
    from glassformer.cli.input_records import field_of

    name = field or ("words" if "words" in record else "text")
    value: Any = record.get(name)
    return value if isinstance(value, list) and value else field_of(record, name)


def show(
    rows: ResultRows,
    record: Record,
    result: Tagged,
    words: bool,
    as_json: bool,
    where: tuple[str, ...],
) -> None:
    if as_json:
        rows.add((), {**about(record, {"text": result.text}), **result.record(words)})
        return
    spans: Sequence[TaggedWord | Entity] = result.words if words else result.entities
    names = [one.tag for one in result.words] if words else [one.type for one in result.entities]
    for name, span in zip(names, spans, strict=True):
        place = str(span.start), str(span.end)
        rows.add((*where, name, f"{span.probability:.4f}", *place, span.text), {})
    if not spans:
        rows.add((*where, "-", "", "", "", result.text), {})


def show_report(found: NerReport, as_json: bool) -> None:
    if as_json:
        print_json(found.record())
        return
    rows = ResultRows(REPORT, as_json=False)
    if found.entities is not None:
        show_table(rows, "entities", found.entities)
    show_table(rows, "tokens", found.tokens)
    if found.entities is not None:
        show_table(rows, "tags", found.tags)
    rows.add(("token accuracy", "", "", f"{found.accuracy:.4f}", ""), {})
    if found.entities is not None:
        print(
            "The usual figure of a tagger is F1 (micro) of entities. Token accuracy is the share "
            "of words with the right tag, O included; it is higher."
        )


def show_table(rows: ResultRows, title: str, table: ScoreTable) -> None:
    means = {"micro": table.micro, "macro": table.macro, "weighted": table.weighted}
    rows.add((title, "", "", "", ""), {})
    for name, row in {**table.classes, **means}.items():
        rows.add((f"  {name}", *numbers(row)), {})


def numbers(row: ClassScores) -> list[str]:
    return [*(f"{x:.4f}" for x in (row.precision, row.recall, row.f1)), str(row.support)]
