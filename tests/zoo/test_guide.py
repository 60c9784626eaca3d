"""docs/models.md: its table is the list."""

from __future__ import annotations

import re
from pathlib import Path

from glassformer.zoo.real import REAL, megabytes

GUIDE = (Path(__file__).parent.parent.parent / "docs/models.md").read_text("utf-8")


def test_the_table_is_the_list():
    rows = re.findall(r"^\| `real:(.+?)` \| .+ \| (.+?) \| (.+?) \|$", GUIDE, re.M)
    told = {name: (license.lower(), size.split(",")[0]) for name, license, size in rows}
    assert told == {name: (one.license, megabytes(one.size)) for name, one in REAL.items()}
