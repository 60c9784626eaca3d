"""Monitors the shares of labels in dated texts and raises alerts.

>>> report = watch(model, [{"date": "2026-11-15", "text": "..."}, ...])
>>> report.alerts, report.svg(), report.html()
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Unpack

from glassformer.errors import ConfigError, DataError
from glassformer.tasks.batching import raise_errors
from glassformer.tasks.classify import Classifier, ClassifierOptions
from glassformer.tasks.model_protocol import TaskModel
from glassformer.tasks.monitor.report_page import page, picture
from glassformer.tasks.monitor.statistics import Alert, AlertRule, Shares

Every = Literal["hour", "day", "week"]


class Monitor:
    """Counts labels by date and tests each time bucket for changes.

    With `live`, a bucket is tested as soon as a text of a later one is added. Otherwise texts may
    come in any order, and all buckets are tested at the end.
    """

    def __init__(
        self,
        *,
        every: Every = "day",
        rule: AlertRule | None = None,
        labels: Iterable[str] = (),
        live: bool = False,
        title: str = "Shares of labels",
    ) -> None:
        if every not in ("hour", "day", "week"):
            raise ConfigError(f"A bucket is an hour, day or week, not {every!r}.")
        self.every, self.live, self.title = every, live, title
        self.shares = Shares(rule or AlertRule(), labels)
        self._newest: float | None = None

    @property
    def rule(self) -> AlertRule:
        return self.shares.rule

    @property
    def alerts(self) -> list[Alert]:
        return self.shares.alerts

    def add(self, date: datetime, labels: Iterable[str]) -> list[Alert]:
        """Adds a text and returns the alerts of buckets that are now complete."""
        start = begin_of(date, self.every)
        begin = start.timestamp()
        later = self._newest is not None and begin > self._newest
        found = self.shares.check_alerts(before=begin) if self.live and later else []
        self._newest = begin if self._newest is None else max(begin, self._newest)
        self.shares.add(begin, name_of(start, self.every), labels)
        return found

    def finish(self) -> list[Alert]:
        """Tests the remaining buckets and returns their alerts."""
        return self.shares.check_alerts()

    def svg(self) -> str:
        return picture(self.shares, self.title, self.every)

    def html(self) -> str:
        """Returns a self-contained HTML page."""
        return page(self.shares, self.title, self.every)


def watch(
    model: TaskModel,
    records: Iterable[Mapping[str, Any]],
    *,
    every: Every = "day",
    rule: AlertRule | None = None,
    date_format: str | None = None,
    **options: Unpack[ClassifierOptions],
) -> Monitor:
    """Classifies dated texts, counts labels per period, and detects jumps in their shares.

    Args:
        model: The model that classifies the texts.
        records: Dicts with a `date` and a `text`.
        every: The length of a period: "hour", "day" or "week".
        rule: When to raise an alert.
        date_format: A strptime pattern of the dates; the default is ISO 8601.
        **options: The options of `classify`.

    Returns:
        The counts per period and the alerts.

    >>> watch(model, [{"date": "2026-11-15", "text": "A moving film."}]).alerts
    """
    classifier = Classifier(model, **options)
    monitor = Monitor(every=every, rule=rule, labels=classifier.labels)
    dates: deque[datetime] = deque()

    def texts() -> Iterator[Any]:
        for date, record in dated(records, date_format):
            dates.append(date)
            yield record.get("text")

    for result in raise_errors(classifier(texts())):
        monitor.add(dates.popleft(), result.labels)
    monitor.finish()
    return monitor


def watch_labels(
    records: Iterable[Mapping[str, Any]],
    *,
    every: Every = "day",
    rule: AlertRule | None = None,
    date_format: str | None = None,
) -> Monitor:
    """Counts the labels that records have per period, and detects jumps in their shares.

    Args:
        records: Dicts with a `date` and a `label` or `labels`.
        every: The length of a period: "hour", "day" or "week".
        rule: When to raise an alert.
        date_format: A strptime pattern of the dates; the default is ISO 8601.

    Returns:
        The counts per period and the alerts.
    """
    monitor = Monitor(every=every, rule=rule)
    for date, record in dated(records, date_format):
        monitor.add(date, given_labels(record))
    monitor.finish()
    return monitor


def dated(
    records: Iterable[Mapping[str, Any]], pattern: str | None
) -> Iterator[tuple[datetime, Mapping[str, Any]]]:
    for number, record in enumerate(records):
        if not isinstance(record, Mapping) or "date" not in record:
            raise DataError(f"Record {number} is not a dict with a date.")
        yield date_of(record["date"], pattern), record


def given_labels(record: Mapping[str, Any], field: str = "label") -> list[str]:
    """Returns the labels that a record has; one without labels still counts as a text."""
    found = record.get("labels", record.get(field)) if field == "label" else record.get(field)
    if found is None and field not in record:
        raise DataError(f"There is no field {field!r} with a label.")
    several = found if isinstance(found, list | tuple) else [found]
    return [str(label) for label in several if label not in (None, "")]


def date_of(value: Any, pattern: str | None = None) -> datetime:
    """Parses ISO 8601, seconds since 1970, or a strptime pattern.

    A time in another zone is converted to UTC; one without a zone is taken as UTC.
    """
    try:
        if pattern is not None:
            date = datetime.strptime(str(value), pattern)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            date = datetime.fromtimestamp(value, UTC)
        else:
            date = datetime.fromisoformat(str(value).strip())
        return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        wanted = "one like 2026-11-15 or 2026-11-15T13:30" if pattern is None else repr(pattern)
        raise DataError(f"{value!r} is not a date ({wanted} is expected)") from None


def begin_of(date: datetime, every: Every) -> datetime:
    """Returns the start of the bucket; weeks begin on Monday."""
    hour = date.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    return {"hour": hour, "day": day, "week": day - timedelta(days=day.weekday())}[every]


def name_of(begin: datetime, every: Every) -> str:
    return begin.strftime("%Y-%m-%dT%H:00" if every == "hour" else "%Y-%m-%d")
