"""Charts and HTML pages of label shares."""

from __future__ import annotations

from html import escape

from glassformer.plotting import Panel, Series, draw
from glassformer.tasks.monitor.statistics import Shares

LAST = 60  # buckets of the table
STYLE = """
body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em;
color:#24292f;background:#ffffff}
table{border-collapse:collapse}td,th{padding:.15em .8em;text-align:right}
td:first-child,th:first-child{text-align:left}tr.alert{font-weight:bold}
svg{max-width:100%;height:auto}p.rule{max-width:50em}
@media(prefers-color-scheme:dark){body{color:#d1d7e0;background:#1c2128}}
"""


def picture(shares: Shares, title: str, every: str) -> str:
    """Draws a line per label, and a point at each alert."""
    begins = sorted(shares.buckets)
    buckets = [shares.buckets[begin] for begin in begins]
    series = [
        Series(name=label, x=begins, y=[one.share(label) for one in buckets], color=number)
        for number, label in enumerate(shares.labels)
    ]
    for number, label in enumerate(shares.labels):
        raised = {
            begin: alert
            for begin, one in zip(begins, buckets, strict=True)
            for alert in one.alerts
            if alert.label == label
        }
        shown = [alert.share for alert in raised.values()]
        titles = list(map(str, raised.values()))
        series.append(Series(x=list(raised), y=shown, color=number, marks=True, titles=titles))
    names = {begin: one.name for begin, one in zip(begins, buckets, strict=True)}
    panel = Panel(title=title, x=every, y="share of texts", series=series, names_x=names)
    return draw([panel])


def page(shares: Shares, title: str, every: str) -> str:
    """Returns HTML with the chart, the rule in words, all alerts and the last buckets."""
    drawn = picture(shares, title, every).replace(' xmlns="http://www.w3.org/2000/svg"', "")
    alerts = shares.alerts
    raised = "".join(f"<li>{escape(str(alert))}</li>" for alert in reversed(alerts))
    names = "".join(f"<th>{escape(label)}</th>" for label in shares.labels)
    rows = []
    for begin in sorted(shares.buckets)[-LAST:][::-1]:
        one = shares.buckets[begin]
        cells = "".join(f"<td>{one.share(label):.1%}</td>" for label in shares.labels)
        kind = ' class="alert"' if one.alerts else ""
        rows.append(f"<tr{kind}><td>{one.name}</td><td>{one.texts:,}</td>{cells}</tr>")
    late = f" {shares.late:,} texts came too late and were not counted." if shares.late else ""
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">',
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>",
        f"<h1>{escape(title)}</h1>\n{drawn}",
        f"<h2>{len(alerts):,} alerts</h2>\n<ul>{raised}</ul>",
        f'<p class="rule">{escape(str(shares.rule))}{late}</p>',
        f"<h2>The last {len(rows)} buckets</h2>",
        f"<table><tr><th>{every}</th><th>texts</th>{names}</tr>",
        *rows,
        "</table>\n</html>\n",
    ]
    return "\n".join(parts)
