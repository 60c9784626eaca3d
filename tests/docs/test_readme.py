"""Tables of measurements contain the last results, and the READMEs are short."""

from __future__ import annotations

import pytest
from blocks import ROOT
from measured import PAGES, filled


@pytest.mark.parametrize("name", PAGES)
def test_the_tables_are_those_of_the_last_results(name):
    text = (ROOT / name).read_text("utf-8")
    assert filled(name, text) == text


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_a_readme_is_short(name):
    assert len((ROOT / name).read_text("utf-8").splitlines()) <= 150
