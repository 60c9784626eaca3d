"""glassformer classify: text classification."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from glassformer.cli.option_groups import grouped
from glassformer.cli.output_paths import OutputPath
from glassformer.cli.predictions import PredictionFile
from glassformer.cli.printing import Column, ResultRows, about, print_note, progress
from glassformer.cli.shared_options import HeadOption
from glassformer.cli.text_task import TextTaskOptions
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.cli.input_records import Record
    from glassformer.tasks.classify import Classification, Classifier

Pair = Annotated[
    str | None, typer.Option(help="The second sentence of a pair, or the column that contains it.")
]
Thresholds = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold",
        help="Minimum probability of a label: 0.7 for all, or label=0.7; may be repeated.",
    ),
]
TooLong = Annotated[
    Literal["truncate", "refuse"],
    typer.Option("--too-long", help="Truncate or refuse a text that is too long."),
]
MaxLength = Annotated[
    int | None,
    typer.Option(help="Maximum length in tokens; by default that of tokenizer and model."),
]


@verb("classify", group="Read")
@grouped
def classify(
    options: TextTaskOptions,
    pair: Pair = None,
    threshold: Thresholds = None,
    head: HeadOption = None,
    max_length: MaxLength = None,
    too_long: TooLong = "truncate",
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A column to copy to the --json output; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .csv, .tsv or .jsonl file for the input's columns and the results beside them."
        ),
        OutputPath(),
    ] = None,
) -> None:
    """Classify texts or pairs of texts.

    The labels are those of the model, such as topics, sentiment or intent.

    $ glassformer classify zoo:reader "Slow and dull." --head sentiment
    """
    from glassformer.cli.input_records import field_of
    from glassformer.tasks.classify import Classifier

    inputs = options.inputs(pair, *(keep or ()))
    model = options.load().pack()
    inputs.trained_on(model)
    classifier = Classifier(
        model,
        threshold=thresholds_of(threshold),
        head=head,
        max_length=max_length,
        too_long=too_long,
    )
    rows = ResultRows((*label_columns(classifier), Column("text")), options.as_json)
    cut = 0

    def question(record: Record) -> str | tuple[str, str]:
        first = options.text_of(record)
        if pair is None:
            return first
        return first, pair if inputs.word is not None else field_of(record, pair, "--pair")

    with PredictionFile.open(out) as table, progress(inputs, "classifying", out is None) as passed:
        for record, result in passed(inputs.answers(question, classifier)):
            cut += result.cut > 0
            if table is not None:
                table.add(getattr(record, "original", record), predictions(result, classifier))
                continue
            read = question(record)
            texts = (read,) if isinstance(read, str) else read
            output = about(record, dict(zip(("text", "pair"), texts, strict=False)), keep)
            rows.add((*cells(result), " | ".join(texts)), {**output, **result.record()})
        inputs.raise_if_stopped()
    if out is not None:
        print_note(f"{inputs.used:,} rows are in {out}.")
    if cut:
        print_note(f"{cut:,} texts were too long for the model and truncated (--too-long refuse).")
    inputs.end()


def thresholds_of(words: Sequence[str] | None) -> float | dict[str, float] | None:
    """Parses --threshold: one number, or a number per label."""
    named: dict[str, float] = {}
    for word in words or ():
        label, equals, number = word.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            raise ConfigError(f"--threshold is 0.7 or label=0.7, not {word!r}.") from None
        if not equals and len(words or ()) == 1:
            return value
        named[label] = value
    return named or None


def predictions(result: Classification, classifier: Classifier) -> dict[str, str | float]:
    """Returns the results of a text as columns of a table."""
    if result.value is not None:
        return {"value": round(result.value, 6)}
    label = ", ".join(result.labels) if classifier.several else result.label or ""
    return {"label": label, "probability": round(result.probability, 6)}


def label_columns(classifier: Classifier) -> tuple[Column, ...]:
    if classifier.number:
        return (Column("value", 10, "cyan"),)
    widths = [len(label) + 2 for label in classifier.labels]  # multiple labels are joined by commas
    width = (sum if classifier.several else max)(widths) - 2
    return Column("label", min(max(width, 5), 40), "cyan"), Column("prob", 6, right=True)


def cells(result: Classification) -> tuple[str, ...]:
    if result.value is not None:
        return (f"{result.value:.4f}",)
    return ", ".join(result.labels) or "-", f"{result.probability:.4f}"
