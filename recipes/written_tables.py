"""What written.py has found, in tables: of each side the mean over the seeds, and the deviation."""

from __future__ import annotations

import statistics
from typing import Any

from bench import Rows, spread

SIDES = {"ours": "Glassformer", "theirs": "transformers"}


def of_sides(found: dict[str, Any], key: str, form: str = ".1f") -> dict[str, str]:
    """The mean over the seeds and the deviation, of each side that is known."""
    sides = {
        side: [row[key] for name, row in found.items() if name.startswith(side)] for side in SIDES
    }
    return {side: spread(values, form) if values else "" for side, values in sides.items()}


def ratio(found: dict[str, Any]) -> str:
    means = [
        statistics.mean(times)
        for side in SIDES
        if (times := [row["seconds"] for name, row in found.items() if name.startswith(side)])
    ]
    return f"{means[0] / means[1]:.2f}" if len(means) == 2 else ""


def multi30k_table(results: dict[str, dict[str, Any]]) -> Rows:
    keys = {"BLEU, greedy": ".1f", "BLEU, beam": ".1f", "BLEU, beam, lowercase": ".1f",
            "chrF2, beam": ".1f", "perplexity": ".2f", "seconds": ".1f"}  # fmt: skip
    names = ["greedy BLEU", "beam of 5", "the same lower-cased", "chrF", "perplexity, val", "s"]
    rows: Rows = [["", "", *names, "of the time"]]
    for name, found in results.items():
        cells = [of_sides(found, key, form) for key, form in keys.items()]
        for side in SIDES:
            if cells[0][side]:
                share = ratio(found) if side == "ours" else ""
                rows.append([name, SIDES[side], *(cell[side] for cell in cells), share])
    return rows


def summaries_table(results: dict[str, dict[str, Any]]) -> Rows:
    kinds = ("ROUGE-1", "ROUGE-2", "ROUGE-L")
    rows: Rows = [["", *kinds, *(f"{kind}, transformers" for kind in kinds), "s",
                   "s, transformers", "of the time"]]  # fmt: skip
    for name, found in results.items():
        cells = [of_sides(found, kind) for kind in kinds]
        seconds = of_sides(found, "seconds")
        rows.append([name, *(cell[side] for side in SIDES for cell in cells),
                     *seconds.values(), ratio(found)])  # fmt: skip
    return rows
