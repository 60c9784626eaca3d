"""glassformer evaluate: metrics of a model with confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from glassformer.cli.model_options import ModelOptions
from glassformer.cli.option_groups import grouped
from glassformer.cli.printing import (
    Column,
    ResultRows,
    output_console,
    print_json,
    print_note,
    progress_bar,
)
from glassformer.cli.shared_options import Encoding, HeadOption, OnErrorOption
from glassformer.cli.tag import REPORT, show_table
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError

if TYPE_CHECKING:
    from glassformer.data.sources import Source
    from glassformer.metrics.bootstrap import MetricWithCI
    from glassformer.metrics.evaluation import Evaluation, GroupMetrics

COLUMNS = (
    Column("", 13, "cyan"),
    *(Column(name, 12, right=True) for name in ("value", "from", "to", "error")),
)
SPEAKERS = (
    Column("", 13, "cyan"),
    *(Column(name, 12, right=True) for name in ("wer", "from", "to", "cer", "records")),
)
CLASSES = 40  # a table of more classes or speakers is printed only with --json


@verb("evaluate", group="Train and evaluate")
@grouped
def evaluate(
    chosen: ModelOptions,
    data: Annotated[
        list[str],
        typer.Argument(help="Files with the correct answers, or patterns; - is standard input."),
    ],
    task: Annotated[
        str | None,
        typer.Option(
            help="classification, regression, tagging, question-answering, multiple-choice, "
            "translation, summarization, perplexity, masked-lm, speech-recognition, embedding, "
            "lambada, hellaswag, piqa, arc_easy, arc_challenge, openbookqa, winogrande, boolq, "
            "copa, choices; else that of the model's head."
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="The format, as in train; by default from the file's ending, and jsonl for "
            "standard input.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="The name of a column in the file: label=topic; may be repeated."),
    ] = None,
    num_fewshot: Annotated[int, typer.Option(help="Number of examples before each question.")] = 0,
    examples: Annotated[
        str | None, typer.Option(help="The file for the examples; by default the data.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Use only the first so many records.")] = None,
    n_resamples: Annotated[
        int, typer.Option(help="Number of resamples for the intervals; 0: no intervals.")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed of the resamples.")] = 0,
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    head: HeadOption = None,
    source_language: Annotated[
        str | None,
        typer.Option(
            "--from",
            "--source-language",
            help="Source language of a translation, as the tokenizer names it.",
        ),
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option("--to", "--target-language", help="Target language of a translation."),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Spoken language of recordings; by default detected.")
    ] = None,
    normalizer: Annotated[
        str | None,
        typer.Option(
            help="Normalization of transcripts before words are compared: "
            "basic (the default), whisper-english or none."
        ),
    ] = None,
    encoding: Encoding = None,
    on_error: OnErrorOption = "stop",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Evaluate a model on data with correct answers.

    Prints the metrics of the model's task, with confidence intervals.

    $ glassformer evaluate zoo:reader reviews.tsv --head sentiment
    """
    from glassformer.cli.input_records import InputRecords
    from glassformer.evaluate.evaluate import evaluate as run_evaluation

    named = {
        "source_language": source_language,
        "target_language": target_language,
        "language": language,
        "normalizer": normalizer,
    }
    given: Source = data
    if data == ["-"]:
        given = InputRecords(form=form or "jsonl", encoding=encoding, whole=True).read()
    with progress(task or "evaluating") as passed:
        found = run_evaluation(
            chosen.load(),
            given,
            task,
            head=head,
            format=form,
            columns=named_columns(column or []),
            encoding=encoding,
            on_error=on_error,
            limit=limit,
            num_fewshot=num_fewshot,
            examples=examples,
            n_resamples=n_resamples,
            seed=seed,
            confidence=confidence,
            progress=passed,
            **{name: value for name, value in named.items() if value is not None},
        )
    for line in found.skipped:
        print_note(f"{line.rstrip('.')}; skipped.")
    if as_json:
        print_json(found.record())
    else:
        show(found, confidence)
    if found.skipped:
        print_note(f"{found.records:,} used, {len(found.skipped):,} skipped.")


def named_columns(pairs: Iterable[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        ours, equals, theirs = pair.partition("=")
        if not (ours and equals and theirs):
            raise ConfigError(f"--column is written as text=review, not {pair!r}.")
        found[ours] = theirs
    return found


def show(found: Evaluation, confidence: float) -> None:
    from glassformer.evaluate.lm_harness.benchmarks import BENCHMARKS

    what = f" ({BENCHMARKS[found.task].about})" if found.task in BENCHMARKS else ""
    console = output_console(highlight=False)
    console.print(f"{found.task}{what}, {found.records:,} records, {confidence:.0%} intervals")
    rows = ResultRows(COLUMNS, as_json=False)
    for name, metric in found.metrics.items():
        rows.add((name, *numbers(metric)), {})
    if found.classes is not None and len(found.classes.classes) <= CLASSES:
        console.print()
        show_table(ResultRows(REPORT, as_json=False), "classes", found.classes)
    if 0 < len(found.speakers) <= CLASSES:
        console.print()
        show_speakers(found.speakers)


def show_speakers(speakers: Mapping[str, GroupMetrics]) -> None:
    rows = ResultRows(SPEAKERS, as_json=False)
    rows.add(("speakers", "", "", "", "", ""), {})
    for name, one in speakers.items():
        wer, low, high, _ = numbers(one.metrics["wer"])
        cer = numbers(one.metrics["cer"])[0]
        rows.add((f"  {name}", wer, low, high, cer, f"{one.records:,}"), {})


def numbers(metric: MetricWithCI) -> list[str]:
    parts = metric.value, metric.low, metric.high, metric.error
    return ["-" if part is None else f"{part:.4f}" for part in parts]


@contextmanager
def progress(title: str) -> Iterator[Any]:
    """Yields a function that passes answers on and updates a progress bar on standard error."""
    console = Console(stderr=True)
    bar = progress_bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        yield lambda answers, total: bar.track(answers, total, description=title)
