"""The tables of docs/models.md list all models."""

from __future__ import annotations

import re
from pathlib import Path

from glassformer import zoo
from glassformer.zoo.published import REAL, megabytes

GUIDE = (Path(__file__).parent.parent.parent / "docs/models.md").read_text("utf-8")


def rows_of(prefix: str) -> dict[str, list[str]]:
    """The cells behind each name."""
    rows = re.findall(rf"^\| `{prefix}(.+?)` \| (.+) \|$", GUIDE, re.M)
    return {name: cells.split(" | ") for name, cells in rows}


def test_the_table_is_the_list():
    told = {
        name: (cells[1].lower(), cells[2].split(",")[0]) for name, cells in rows_of("real:").items()
    }
    assert told == {name: (one.license, megabytes(one.size)) for name, one in REAL.items()}


def test_what_ships_is_told_as_its_cards_have_it():
    rows = rows_of(zoo.PREFIX)
    assert list(rows) == zoo.for_a_visitor()
    for name, (_, parameters, size, metrics, license) in rows.items():
        one = zoo.read(name)
        assert parameters == f"{one.parameters / 1e6:.1f} million", name
        assert (size, license.lower()) == (megabytes(one.size), one.license), name
        numbers = re.findall(r"\d+\.\d+", metrics)
        assert numbers and all(number in zoo.card_of(name)[1] for number in numbers), name
