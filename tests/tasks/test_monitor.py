"""Dates, buckets, charts and pages of the monitor, and detection of a jump in a stream of texts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import numpy as np
import pytest
from small_models import REVIEWS, reviews, train_classifier

import glassformer as gf
from glassformer.tasks.monitor import Monitor, watch, watch_labels
from glassformer.tasks.monitor.monitor import begin_of, date_of, given_labels
from glassformer.tasks.monitor.statistics import AlertRule

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def dated(days: int, jump: int, seed: int = 7) -> list[dict[str, str]]:
    """Forty reviews a day, a quarter of them bad, and on one day three quarters."""
    rng = np.random.default_rng(seed)
    rows = []
    for day in range(days):
        for _ in range(40):
            label = "bad" if rng.random() < (0.75 if day == jump else 0.25) else "good"
            text = REVIEWS[label][rng.integers(len(REVIEWS[label]))]
            rows.append({"date": (DAY + timedelta(days=day)).date().isoformat(), "text": text,
                         "label": label})  # fmt: skip
    return rows


def test_a_jump_in_what_texts_say_is_found(tmp_path):
    model = gf.load(train_classifier(tmp_path, reviews()))
    rows = dated(20, jump=15)
    report = watch(model, rows)
    first, second = report.alerts
    assert {first.label, second.label} == {"bad", "good"}
    assert first.bucket == second.bucket == "2026-03-16" and first.up != second.up
    by_hand = watch_labels(
        [{k: row[k] for k in ("date", "label")} for row in rows]
    )  # as it was written
    assert set(map(str, by_hand.alerts)) == set(map(str, report.alerts))


def test_dates():
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    for same in ("2026-11-15T12:00", "2026-11-15 14:00+02:00", "2026-11-15T12:00:00Z",
                 noon.timestamp(), int(noon.timestamp())):  # fmt: skip
        assert date_of(same) == noon
    assert date_of("15.11.2026 12", "%d.%m.%Y %H") == noon
    for wrong in ("yesterday", None, "", True, 1e30, "2026-13-01", "0001-01-01T00:00+05:00"):
        with pytest.raises(gf.GlassformerError, match="is not a date"):
            date_of(wrong)
    with pytest.raises(gf.GlassformerError, match="'2026-11-15' is not a date"):
        date_of("2026-11-15", "%d.%m.%Y")


@pytest.mark.parametrize("record", [5, {}, {"label": "good"}])
def test_records_without_a_date(record):
    with pytest.raises(gf.GlassformerError, match="Record 1 is not a dict with a date"):
        watch_labels([{"date": "2026-01-01", "label": "good"}, record])


def test_buckets():
    date = datetime(2026, 11, 15, 13, 45, 7, tzinfo=UTC)  # a Sunday
    assert begin_of(date, "hour") == datetime(2026, 11, 15, 13, tzinfo=UTC)
    assert begin_of(date, "day") == datetime(2026, 11, 15, tzinfo=UTC)
    assert begin_of(date, "week") == datetime(2026, 11, 9, tzinfo=UTC)
    with pytest.raises(gf.GlassformerError, match="hour, day or week, not 'month'"):
        Monitor(every="month")


def test_labels_that_records_carry():
    assert given_labels({"label": "x"}) == ["x"] and given_labels({"label": 3}) == ["3"]
    assert given_labels({"labels": ["x", "y"], "label": "x"}) == ["x", "y"]
    assert given_labels({"label": None}) == [] and given_labels({"topic": ["x"]}, "topic") == ["x"]
    with pytest.raises(gf.GlassformerError, match="no field 'label'"):
        given_labels({"text": "x"})


def test_the_order_of_texts_makes_no_difference_unless_they_are_followed():
    rows = [{k: row[k] for k in ("date", "label")} for row in dated(20, jump=15)]
    mixed = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    assert set(map(str, watch_labels(mixed).alerts)) == set(map(str, watch_labels(rows).alerts))
    live, raised = Monitor(live=True), {}
    for number, row in enumerate(rows):
        for alert in live.add(date_of(row["date"]), [row["label"]]):
            raised[str(alert)] = number
    assert set(raised) == set(map(str, watch_labels(rows).alerts))
    assert set(raised.values()) == {16 * 40}  # with the first text of the next day


@pytest.fixture
def report() -> Monitor:
    return watch_labels([{**row, "label": f"<{row['label']}>"} for row in dated(20, jump=15)])


def test_the_picture_shows_shares_alerts_and_dates(report):
    root = ElementTree.fromstring(report.svg())
    tag = "{http://www.w3.org/2000/svg}"
    lines = root.findall(f".//{tag}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [20, 20]
    titles = [mark.text for mark in root.findall(f".//{tag}circle/{tag}title")]
    assert len(titles) == 2 and all("2026-03-16" in title for title in titles)
    words = [text.text for text in root.findall(f".//{tag}text")]
    assert "2026-03-01" in words and "<bad>" in words
    assert watch_labels([]).svg()


def test_the_page_stands_alone(report):
    page = report.html()
    assert not re.search(r"""(src|href)=|url\(|@import|https?://|<script""", page)
    assert "<svg" in page and str(AlertRule()).split(",")[0] in page and "2 alerts" in page
    assert page.count('<tr class="alert">') == 1 and "<bad>" not in page and "&lt;bad&gt;" in page
    (row,) = re.findall(r'<tr class="alert"><td>2026-03-16</td><td>40</td>(.*?)</tr>', page)
    bucket = next(one for one in report.shares.over if one.name == "2026-03-16")
    shares = [f"{bucket.share(label):.1%}" for label in report.shares.labels]
    assert re.findall(r"<td>(.*?)</td>", row) == shares
