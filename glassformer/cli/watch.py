"""glassformer watch: proportions of labels over time, with alerts at jumps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.classify import MaxLength, Thresholds, TooLong, thresholds_of
from glassformer.cli.output_paths import OutputPath
from glassformer.cli.printing import Column, ResultRows, print_json, print_note, progress
from glassformer.cli.shared_options import (
    AdapterOption,
    AsJson,
    Device,
    Download,
    Dtype,
    Encoding,
    Field,
    Files,
    Form,
    HeadOption,
    OnErrorOption,
    zoo_names,
)
from glassformer.cli.verbs import verb
from glassformer.errors import ConfigError, GlassformerError
from glassformer.storage.files import write_text
from glassformer.tasks.monitor.statistics import AlertRule, Bucket

if TYPE_CHECKING:
    from glassformer.cli.input_records import InputRecords, Record
    from glassformer.tasks.monitor.monitor import Monitor

SHOWN = 6  # labels with a column of their own
RULE = "The rule"


@verb("watch", group="Read")
def watch(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A model's folder, or zoo:NAME; not needed with --label.",
            autocompletion=zoo_names,
        ),
    ] = None,
    adapter: AdapterOption = None,
    download: Download = False,
    file: Files = None,
    form: Annotated[
        Form | None, typer.Option("--format", help="jsonl, csv, tsv; jsonl for standard input.")
    ] = None,
    field: Field = None,
    date: Annotated[str, typer.Option(help="The column of the date.")] = "date",
    date_format: Annotated[
        str | None,
        typer.Option(help="The format as in strptime; by default ISO 8601, or seconds since 1970."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="A column that contains the label; no model is used.")
    ] = None,
    every: Annotated[
        Literal["hour", "day", "week"], typer.Option(help="The length of a bucket, in UTC.")
    ] = "day",
    svg: Annotated[Path | None, typer.Option(help="File for the plot."), OutputPath()] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="File for the report, one standalone page."),
        OutputPath(),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(help="Maximum share of buckets with a false alarm.", rich_help_panel=RULE),
    ] = AlertRule.alpha,
    min_change: Annotated[
        float,
        typer.Option(help="Minimum difference of shares for an alert.", rich_help_panel=RULE),
    ] = AlertRule.min_change,
    baseline: Annotated[
        int, typer.Option(help="Number of earlier buckets to compare with.", rich_help_panel=RULE)
    ] = AlertRule.baseline,
    min_buckets: Annotated[
        int,
        typer.Option(help="Minimum number of earlier buckets with texts.", rich_help_panel=RULE),
    ] = AlertRule.min_buckets,
    min_texts: Annotated[
        int, typer.Option(help="Minimum number of texts in a bucket.", rich_help_panel=RULE)
    ] = AlertRule.min_texts,
    encoding: Encoding = None,
    on_error: OnErrorOption = "stop",
    threshold: Thresholds = None,
    head: HeadOption = None,
    max_length: MaxLength = None,
    too_long: TooLong = "truncate",
    as_json: AsJson = False,
    device: Device = "cpu",
    dtype: Dtype = None,
) -> None:
    """Plot shares of labels over time, and raise an alert at a jump.

    Reads dated texts and classifies them, or records that have a label. At the end of a bucket of
    time, its shares are compared with those of the earlier buckets by two tests: Fisher's exact
    test and a two-proportion t-test with the variance between these buckets. For an alert, the
    larger p-value must be below --alpha after Holm's correction over all labels, the bucket must
    have --min-texts, and the share must have changed by at least --min-change. Standard input is
    read continuously, and alerts are printed immediately; the lines of files may be in any order.

    $ glassformer watch zoo:reader --head sentiment --file reviews.csv --svg shares.svg
    """
    from glassformer.cli.input_records import InputRecords, field_of, missing
    from glassformer.cli.text_column import TextColumn
    from glassformer.loading import load
    from glassformer.tasks.classify import Classifier
    from glassformer.tasks.monitor.monitor import Monitor, date_of, given_labels

    rule = AlertRule(
        alpha=alpha,
        min_change=min_change,
        baseline=baseline,
        min_buckets=min_buckets,
        min_texts=min_texts,
    )
    if (model is None) == (label is None):
        raise ConfigError("Give a model to classify texts, or --label COLUMN for labels.")
    if adapter is not None and model is None:
        raise ConfigError("--adapter needs a model, and --label COLUMN uses none.")
    for path in (svg, html):
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"There is no folder {path.parent} for {path.name}.")
    live = not file
    inputs = InputRecords(
        None,
        file,
        form=form,
        stdin_form="jsonl",
        column=TextColumn(field, taken=(date,)) if label is None else None,
        encoding=encoding,
        on_error=on_error,
    )
    classifier = None
    if model is not None:
        settings: dict[str, Any] = {"threshold": thresholds_of(threshold), "head": head}
        settings |= {"max_length": max_length, "too_long": too_long}
        classifier = Classifier(load(model, device, dtype, adapter=adapter).pack(), **settings)
    known = () if classifier is None else classifier.labels
    watched = Monitor(
        every=every, rule=rule, labels=known, live=live, title=title_of(model, inputs)
    )
    print_note(str(rule))
    shown = LiveTable(watched, as_json)

    def question(record: Record) -> Any:
        if date not in record:
            raise missing(record, date, "--date")
        date_of(record[date], date_format)  # checked before the text is classified
        return field_of(record, field or "text") if label is None else given_labels(record, label)

    def labels(questions: Iterator[Any]) -> Iterable[Any]:
        if classifier is None:
            return questions
        results = classifier(questions)
        return (one if isinstance(one, GlassformerError) else one.labels for one in results)

    with progress(inputs, "watching", shown=live) as passed:
        for record, found in passed(inputs.answers(question, labels)):
            watched.add(date_of(record.get(date), date_format), found)
            if shown.update():
                draw(watched, svg, html)
    watched.finish()
    shown.update()
    if inputs.used:
        draw(watched, svg, html)
    if watched.shares.late:
        print_note(f"{watched.shares.late:,} texts came too late and were not counted.")
    inputs.end()


class LiveTable:
    """Prints buckets and alerts as soon as they are evaluated."""

    def __init__(self, watched: Monitor, as_json: bool) -> None:
        self.watched, self.as_json = watched, as_json
        self._rows: ResultRows | None = None
        self._printed = 0

    def update(self) -> bool:
        """Prints new buckets; returns whether there were any."""
        new = self.watched.shares.over[self._printed :]
        self._printed += len(new)
        for bucket in new:
            self._show(bucket)
        return bool(new)

    def _show(self, bucket: Bucket) -> None:
        if self.as_json:
            for alert in bucket.alerts:
                print_json({**alert.record(), "rule": str(self.watched.rule)})
            return
        labels = self.watched.shares.labels[:SHOWN]
        if self._rows is None:
            names = [Column(label, max(len(label), 6), right=True) for label in labels]
            first = Column(self.watched.every, 16), Column("texts", 7, right=True)
            last = Column("alerts", style="red", whole=True)
            self._rows = ResultRows((*first, *names, last), as_json=False)
            self._labels = labels
        cells = [f"{bucket.share(label):.1%}" for label in self._labels]
        alert_texts = "; ".join(
            f"{alert.label} {'rose' if alert.up else 'fell'} from {alert.before:.1%}, "
            f"p {alert.p:.0e}"
            for alert in bucket.alerts
        )
        self._rows.add((bucket.name, f"{bucket.texts:,}", *cells, alert_texts), {})


def title_of(model: str | None, inputs: InputRecords) -> str:
    what = "labels" if model is None else f"labels of {Path(model).name}"
    return f"Shares of {what} in {', '.join(path.name for path in inputs.file_reader.paths)}"


def draw(watched: Monitor, svg: Path | None, html: Path | None) -> None:
    """Writes the plots; for a followed stream, after every bucket."""
    for path, made in ((svg, watched.svg), (html, watched.html)):
        if path is not None:
            write_text(path, made())
