"""Draws line and scatter plots as SVG. The same data always gives the same bytes.

Colors follow the viewer's light or dark scheme. A panel has axes, ticks, a grid and a legend; a
picture has one panel or several side by side. It is written here, because training must plot
without matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from xml.sax.saxutils import escape, quoteattr

from glassformer.rounding import ceil_div

WIDTH, HEIGHT = 640, 400  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 56  # margins around the plot area
ROW, LETTER = 18, 6.6  # height of a legend row, approximate width of a letter
NAMED = 5  # maximum number of named ticks
MOST = 1000  # maximum points of a line; no screen shows more
LIGHT = ("#0868ac", "#c94f00", "#1a7f37", "#8250df", "#bf3989", "#7d5a00", "#0f7b83", "#57606a")
DARK = ("#6cb6ff", "#f69d50", "#6bc46d", "#dcbdfb", "#fc8dc7", "#daaa3f", "#56d4dd", "#adbac7")


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line, or with `marks` only its points.

    A series without a name is not in the legend. `color` is an index into the palette, so that
    related series can share a color.
    """

    x: Sequence[float]
    y: Sequence[float]  # None and non-finite values are skipped
    name: str = ""
    color: int = 0
    dashed: bool = False
    faint: bool = False
    marks: bool = False
    titles: Sequence[str] = ()  # tooltips of the marks


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One plot: title, axis labels and series."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    names_x: Mapping[float, str] = field(default_factory=dict)  # tick labels by value, e.g. dates


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels between `begin` and `end`, and chooses the ticks."""

    low: float
    high: float
    log: bool
    begin: float  # in pixels
    end: float
    names: Mapping[float, str] = field(default_factory=dict)

    def place(self, value: float) -> float:
        """Returns the pixel of a value."""
        low, high, value = (self._scaled(each) for each in (self.low, self.high, value))
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        if self.names:
            return sorted(self.names)[:: math.ceil(len(self.names) / NAMED)]
        return _decades(self.low, self.high) if self.log else _even(self.low, self.high)

    def said(self, value: float) -> str:
        return self.names.get(value) or tick(value)

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.log else value


def draw(panels: Sequence[Panel], columns: int | None = None) -> str:
    """Returns the picture as SVG text, with the panels side by side, or so many in a row."""
    rows = max(len(_legend_rows(panel)) for panel in panels)
    columns = columns or len(panels)
    each = HEIGHT + ROW * rows
    width, height = WIDTH * columns, each * ceil_div(len(panels), columns)
    label = "; ".join(panel.title for panel in panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label={quoteattr(label)}>',
        f"<style>{_style()}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
    ]
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        lines.append(f'<g transform="translate({column * WIDTH} {row * each})">')
        lines += _panel(panel)
        lines.append("</g>")
    return "\n".join([*lines, "</svg>"]) + "\n"


def _style() -> str:
    def scheme(ground: str, text: str, grid: str, colors: Sequence[str]) -> str:
        parts = "".join(
            f".l{i}{{stroke:{color}}}.m{i}{{fill:{color}}}" for i, color in enumerate(colors)
        )
        return f".ground{{fill:{ground}}}text{{fill:{text}}}.grid{{stroke:{grid}}}{parts}"

    shapes = (
        "text{font:12px sans-serif}.title{font-size:14px;font-weight:bold}"
        ".grid{stroke-width:1;shape-rendering:crispEdges}"
        ".line{fill:none;stroke-width:1.8;stroke-linejoin:round}"
        ".faint{stroke-width:1;stroke-opacity:.55}.dashed{stroke-dasharray:6 4}"
    )
    light = scheme("#ffffff", "#24292f", "#d8dee4", LIGHT)
    dark = scheme("#1c2128", "#d1d7e0", "#3d444d", DARK)
    return f"{shapes}{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _panel(panel: Panel) -> Iterator[str]:
    shown = [list(_points(series, panel)) for series in panel.series]
    every = [point for points in shown for run in points for point in run]
    across = _axis([x for x, _ in every], panel.log_x, LEFT, WIDTH - RIGHT, margin=0.0)
    across = replace(across, names=panel.names_x)
    up = _axis([y for _, y in every], panel.log_y, HEIGHT - BOTTOM, TOP, margin=0.04)
    middle, floor = (LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM
    yield _text(panel.title, middle, 22, kind="title")
    for value in across.ticks():
        x = across.place(value)
        yield f'<line class="grid" x1="{_n(x)}" y1="{TOP}" x2="{_n(x)}" y2="{floor}"/>'
        yield _text(across.said(value), x, floor + 17, kind="x")
    for value in up.ticks():
        y, side = up.place(value), WIDTH - RIGHT
        yield f'<line class="grid" x1="{LEFT}" y1="{_n(y)}" x2="{side}" y2="{_n(y)}"/>'
        yield _text(tick(value), LEFT - 7, y + 4, kind="y", anchor="end")
    yield _text(panel.x, middle, floor + 38)
    yield f'<g transform="translate(18 {_n((TOP + floor) / 2)}) rotate(-90)">'
    yield f"{_text(panel.y, 0, 0)}</g>"
    for series, runs in zip(panel.series, shown, strict=True):
        drawn = _marks if series.marks else _line
        yield from drawn(series, runs, across, up)
    for row, entries in enumerate(_legend_rows(panel)):
        x, y = float(LEFT), HEIGHT - 4 + ROW * row
        for series in entries:
            yield _sample(series, x, y)
            yield _text(series.name, x + 26, y + 4, kind="legend", anchor="start")
            x += _legend_width(series)


Run = list[tuple[float, float]]


def _points(series: Series, panel: Panel) -> Iterator[Run]:
    """Splits a series at points that cannot be shown, and thins out very long pieces."""
    run: Run = []
    for x, y in zip(series.x, series.y, strict=True):
        if _fits(x, panel.log_x) and _fits(y, panel.log_y):
            run.append((x, y))
        elif run and not series.marks:
            yield _thinned(run)
            run = []
    if run:
        yield run if series.marks else _thinned(run)


def _fits(value: float | None, log: bool) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or not log)


def _thinned(run: Run) -> Run:
    """Keeps the minimum and maximum of each group of points, so that outliers stay visible."""
    if len(run) <= MOST:
        return run
    size = math.ceil(len(run) / (MOST // 2))
    kept = [run[0]]
    for begin in range(1, len(run) - 1, size):
        few = range(begin, min(begin + size, len(run) - 1))
        ends = {min(few, key=lambda i: run[i][1]), max(few, key=lambda i: run[i][1])}
        kept += [run[i] for i in sorted(ends)]
    return [*kept, run[-1]]


def _axis(values: list[float], log: bool, begin: float, end: float, margin: float) -> Axis:
    low, high = (min(values), max(values)) if values else (1.0, 2.0)
    if log:
        ratio = max((high / low) ** (margin or 0.02), 1.02)
        return Axis(low / ratio, high * ratio, log, begin, end)
    if low == high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    more = (high - low) * margin
    return Axis(low - more, high + more, log, begin, end)


def _even(low: float, high: float) -> list[float]:
    """Returns four to nine round numbers."""
    raw = (high - low) / 8
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(number * step, digits) for number in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Returns powers of ten; if these are few, also 2 and 5 times those; then all round numbers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for within in ((1,), (1, 2, 5), tuple(range(1, 10))):
        found = [float(f"{each}e{power}") for power in powers for each in within]
        found = [value for value in found if low <= value <= high]
        if len(found) >= 3:
            return found[:: math.ceil(len(found) / 8)]
    return _even(low, high)


def tick(value: float) -> str:
    """Formats a number briefly, but so that it can be parsed again: 0.001, 250, 2.5e6, 1e-5."""
    digits, exponent, power = f"{value:g}".partition("e")
    return f"{digits}e{int(power)}" if exponent else digits


def _line(series: Series, runs: list[Run], across: Axis, up: Axis) -> Iterator[str]:
    style = f"line l{series.color % len(LIGHT)}{_looks(series)}"
    for run in runs:
        points = " ".join(f"{_n(across.place(x))},{_n(up.place(y))}" for x, y in run)
        if len(run) > 1:
            yield f'<polyline class="{style}" points="{points}"/>'
        else:  # a line of one point would be invisible
            x, _, y = points.partition(",")
            yield f'<circle class="m{series.color % len(LIGHT)}" cx="{x}" cy="{y}" r="2.5"/>'


def _marks(series: Series, runs: list[Run], across: Axis, up: Axis) -> Iterator[str]:
    points = [point for run in runs for point in run]
    titles = series.titles or [""] * len(points)
    for (x, y), title in zip(points, titles, strict=True):
        place = f'cx="{_n(across.place(x))}" cy="{_n(up.place(y))}"'
        said = escape(f"{title}: " if title else "") + f"{across.said(x)}, {up.said(y)}"
        color = series.color % len(LIGHT)
        yield f'<circle class="m{color}" {place} r="3.5"><title>{said}</title></circle>'


def _legend_rows(panel: Panel) -> list[list[Series]]:
    rows: list[list[Series]] = []
    available = 0.0
    for series in panel.series:
        if not series.name:
            continue
        if not rows or _legend_width(series) > available:
            rows.append([])
            available = WIDTH - LEFT - RIGHT
        rows[-1].append(series)
        available -= _legend_width(series)
    return rows


def _legend_width(series: Series) -> float:
    return 44 + LETTER * len(series.name)


def _sample(series: Series, x: float, y: float) -> str:
    color = series.color % len(LIGHT)
    if series.marks:
        return f'<circle class="m{color}" cx="{_n(x + 10)}" cy="{_n(y)}" r="3.5"/>'
    return (
        f'<line class="line l{color}{_looks(series)}" x1="{_n(x)}" y1="{_n(y)}" '
        f'x2="{_n(x + 20)}" y2="{_n(y)}"/>'
    )


def _text(said: str, x: float, y: float, *, kind: str = "label", anchor: str = "middle") -> str:
    place = f'x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(said)}</text>'


def _looks(series: Series) -> str:
    return " dashed" * series.dashed + " faint" * series.faint


def _n(value: float) -> str:
    """Formats a coordinate with a precision of 0.01 pixels."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
