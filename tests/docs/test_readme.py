"""The READMEs' tables are what was measured. (test_blocks.py runs their blocks.)"""

from __future__ import annotations

import pytest
from blocks import ROOT
from measured import HEADS, filled


@pytest.mark.parametrize("name", HEADS)
def test_the_tables_are_those_of_the_last_results(name):
    text = (ROOT / name).read_text("utf-8")
    assert filled(name, text) == text
