"""Plots: the SVG parsed as XML, and the values at its ticks."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from glassformer.plotting import MOST, Panel, Series, draw, tick

SVG = "{http://www.w3.org/2000/svg}"


def read(picture: str) -> list[ET.Element]:
    """The panels."""
    root = ET.fromstring(picture)
    assert root.tag == f"{SVG}svg"
    return root.findall(f"{SVG}g")


def scale(panel: ET.Element, axis: str, log: bool):
    """From pixels to values, by the first and the last tick."""
    ticks = [text for text in panel.iter(f"{SVG}text") if text.get("class") == axis]
    values = [float(text.text) for text in ticks]
    assert len(values) >= 2 and values == sorted(values)
    if axis == "x":
        pixels = [float(text.get("x")) for text in ticks]
    else:
        pixels = [float(text.get("y")) - 4 for text in ticks]
    ends = [math.log10(value) if log else value for value in (values[0], values[-1])]

    def value(pixel: float) -> float:
        share = (pixel - pixels[0]) / (pixels[-1] - pixels[0])
        found = ends[0] + share * (ends[1] - ends[0])
        return 10**found if log else found

    return value


def lines(panel: ET.Element, log_x: bool = False, log_y: bool = False) -> list[np.ndarray]:
    """Points of every line as values, [point, xy]."""
    across, up = scale(panel, "x", log_x), scale(panel, "y", log_y)
    return [
        np.array(
            [
                [across(float(x)), up(float(y))]
                for x, y in (pair.split(",") for pair in line.get("points").split())
            ]
        )
        for line in panel.iter(f"{SVG}polyline")
    ]


def panel(*series: Series, **named) -> Panel:
    return Panel(title="Loss <of> a & b", x="step", y="loss", series=series, **named)


@pytest.mark.parametrize("log_x", [False, True])
@pytest.mark.parametrize("log_y", [False, True])
def test_points_lie_where_the_ticks_say(log_x, log_y):
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(1, 5000, 40))
    y = rng.uniform(0.02, 9, 40)
    drawn = draw([panel(Series(x=list(x), y=list(y)), log_x=log_x, log_y=log_y)])
    (line,) = lines(read(drawn)[0], log_x, log_y)
    for column, values, log in ((0, x, log_x), (1, y, log_y)):
        ends = np.log(values) if log else values
        found = np.log(line[:, column]) if log else line[:, column]
        assert np.abs(found - ends).max() < 1e-3 * np.ptp(ends)


def test_what_is_not_a_number_breaks_the_line():
    y = [3.0, 2.0, None, 1.5, 1.4, float("nan"), 1.0]
    drawn = read(draw([panel(Series(x=list(range(7)), y=y))]))[0]
    assert [len(line) for line in lines(drawn)] == [2, 2]
    assert len(list(drawn.iter(f"{SVG}circle"))) == 1  # the last, which has no neighbor
    logged = draw([panel(Series(x=[1, 2, 3], y=[1.0, 0.0, 10.0]), log_y=True)])
    assert len(list(read(logged)[0].iter(f"{SVG}circle"))) == 2


def test_a_long_line_keeps_what_sticks_out():
    x = list(range(100_000))
    y = [2.0 + math.sin(i / 9000) for i in x]
    y[70_001] = 50.0
    drawn = draw([panel(Series(x=x, y=y))])
    (line,) = lines(read(drawn)[0])
    assert len(line) <= MOST + 2 and len(drawn) < 40_000
    assert line[:, 1].max() == pytest.approx(50, rel=1e-3)
    assert (np.diff(line[:, 0]) >= 0).all()
    assert line[[0, -1], 0] == pytest.approx([0, 99_999], abs=20)


def test_legends_titles_and_several_panels():
    many = [Series(name=f"run number {i}", x=[1, 2], y=[i, i + 1], color=i) for i in range(9)]
    marks = Series(name="<marks>", x=[1.0], y=[2.0], marks=True, titles=["a & b"])
    one, other = read(draw([panel(*many), panel(marks)]))
    legend = [text for text in one.iter(f"{SVG}text") if text.get("class") == "legend"]
    assert [text.text for text in legend] == [series.name for series in many]
    assert len({text.get("y") for text in legend}) > 1  # rows
    assert [title.text for title in other.iter(f"{SVG}title")] == ["a & b: 1, 2"]
    titles = [text.text for text in one.iter(f"{SVG}text") if text.get("class") == "title"]
    assert titles == ["Loss <of> a & b"]


def test_the_same_numbers_are_the_same_bytes_in_both_schemes():
    pictures = {draw([panel(Series(x=[0, 1, 2], y=[2, 1.5, 1.25]))]) for _ in range(3)}
    assert len(pictures) == 1
    assert "prefers-color-scheme:dark" in pictures.pop()


@pytest.mark.parametrize("y", [[], [None], [0.0, 0.0], [1e-12, 1e-12], [5e30, -5e30]])
def test_odd_numbers_are_drawn(y):
    for log in (False, True):
        read(draw([panel(Series(x=list(range(len(y))), y=y), log_y=log)]))


def test_ticks_are_numbers_that_can_be_read():
    assert [tick(value) for value in (0, 0.001, 250, 2.5e6, 1e-5, 1e15, -3)] == [
        "0", "0.001", "250", "2.5e6", "1e-5", "1e15", "-3"
    ]  # fmt: skip


def test_panels_in_several_rows():
    panels = [Panel(title=str(i), x="step", y="loss", series=[Series(x=[1, 2], y=[1, 2], name="a")])
              for i in range(3)]  # fmt: skip
    places = [panel.get("transform") for panel in read(draw(panels, columns=2))]
    beside, below = places[1], places[2]
    assert places[0] == "translate(0 0)" and beside.endswith(" 0)")
    assert below.startswith("translate(0 ") and below != places[0]
    root = ET.fromstring(draw(panels, columns=2))
    one = ET.fromstring(draw(panels[:1]))
    assert int(root.get("height")) == 2 * int(one.get("height"))
    assert int(root.get("width")) == 2 * int(one.get("width"))
