"""Built-in models: the commands of their cards print the documented results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from quick import quick

from glassformer import zoo

ROOT = Path(__file__).parents[2]
COMMANDS = {
    line: name
    for name in zoo.names()
    for line in re.findall(r"^\s*glassformer (evaluate zoo:.+)$", zoo.card_of(name)[1], re.M)
}


def told_of(name: str) -> list[dict[str, float]]:
    """What was measured when the card was written, a dictionary for each command."""
    folder = zoo.folder_of(name)
    if name == "stories":
        found: Any = json.loads((folder / "eval" / "figures.json").read_text("utf-8"))
        ours = found["texts"]["eval/stories.jsonl"]["ours"]
        return [{key: ours[key] for key in ("perplexity", "bits_per_byte")}]
    found = json.loads((folder / "figures.json").read_text("utf-8"))
    metrics = [one["figures"] for one in found["trials"].values()]
    return [{key: metric["value"] for key, metric in some.items()} for some in metrics]


def test_every_model_names_its_commands():
    assert set(COMMANDS.values()) == set(zoo.names())


QUICK = [line for line, name in COMMANDS.items() if name == "letters" or "--head topic" in line]


@pytest.mark.parametrize("line", quick(COMMANDS, *QUICK), ids=lambda line: line.split(" ", 1)[1])
def test_the_figures_are_reproduced(line, glassformer, monkeypatch):
    monkeypatch.chdir(ROOT)
    code, shown, said = glassformer(*line.split(), "--json", "--n-resamples", "0")
    assert code == 0, said
    found = {key: one["value"] for key, one in json.loads(shown)["metrics"].items()}
    assert any(found == pytest.approx(told, rel=1e-3) for told in told_of(COMMANDS[line]))
