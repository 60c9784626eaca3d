"""A model's card (README.md), of what is known of it (facts.py) and what was measured
(figures.json)."""

from __future__ import annotations

import json
import math
from typing import Any

from facts import Facts, Trial

Found = dict[str, Any]


def card(name: str, facts: Facts, found: Found) -> str:
    run = found["run"]
    recipes = ", ".join(f"`recipes/zoo/{one}.toml`" for one in facts.recipes)
    made = f"{run['steps']:,} steps, {run['tokens']:,} tokens, seed {run['seed']}"
    ended = "" if run["valid"] is None else f"; validation loss {run['valid']:.4f}"
    return f"""---
library_name: glassformer
pipeline_tag: {facts.pipeline}
language: {facts.language}
license: {facts.license}
parameters: {found["parameters"]}
version: {facts.version}{replaced(facts)}
sha256: {found["sha256"]}
shown: {facts.place}
widget:
{chr(10).join(f"- {json.dumps(one, ensure_ascii=False)}" for one in facts.samples)}
---
# {name}

{facts.about} {found["parameters"]:,} parameters in bfloat16: `gf.load("zoo:{name}")`.

```sh
{chr(10).join(facts.examples)}
```

| | |
|---|---|
| recipe | {recipes}; `python recipes/zoo/build.py {name}` |
| training | {made}, {run["seconds"]:,.0f} s on {run["device"]}{ended} |
| license | {facts.license} |

## Figures

{table(facts, found["trials"])}

{intervals(found["trials"])} These commands print the figures, in the root of the repository:

```sh
{commands(name, facts)}
```

{facts.notes}

{facts.compared}

## Data

{notices(facts)}
"""


def replaced(facts: Facts) -> str:
    """Returns the line of the front matter that lists the versions that shipped before."""
    return f"\nreplaces: {' '.join(facts.replaces)}" if facts.replaces else ""


def table(facts: Facts, measured: Found) -> str:
    names = [key for key in facts.shown if any(key in one["figures"] for one in measured.values())]
    more = ["loss"] if names == ["perplexity"] else []
    rows = [["", "records", *names, *more]]
    for trial in facts.trials:
        figures = measured[trial.title]["figures"]
        cells = [cell(figures.get(key), facts.shown[key]) for key in names]
        logs = [f"{math.log(figures['perplexity']['value']):.4f}"] if more else []
        rows.append([trial.title, f"{measured[trial.title]['records']:,}", *cells, *logs])
    lines = [" | ".join(row) for row in rows]
    return "\n".join((f"| {lines[0]} |", f"|---|{'---:|' * (len(rows[0]) - 1)}",
                      *(f"| {line} |" for line in lines[1:])))  # fmt: skip


def intervals(measured: Found) -> str:
    """How they were made: trials that were measured before this was noted have quantiles."""
    if all("intervals" in one for one in measured.values()):
        return "In brackets: 95% intervals, Wilson's for shares of correct records, else BCa."
    return ("In brackets: 95% intervals by a percentile bootstrap (`evaluate` now prints Wilson "
            "and BCa intervals).")  # fmt: skip


def cell(figure: Found | None, form: str) -> str:
    if figure is None:
        return ""
    said = f"{figure['value']:{form}}"
    if figure["low"] is None:
        return said
    return f"{said} ({figure['low']:{form}} to {figure['high']:{form}})"


def commands(name: str, facts: Facts) -> str:
    """Of the model itself; those that it is compared with do not ship."""
    return "\n".join(
        f"glassformer {line}"
        for trial in facts.trials
        if trial.model is None
        for line in [command(trial, f"zoo:{name}", f"{facts.home}/{name}/eval")]
    )


def command(trial: Trial, model: str, files: str) -> str:
    return f"evaluate {model} {files}/{trial.file} {trial.options}".rstrip()


def notices(facts: Facts) -> str:
    rows = ["| data | license | source |", "|---|---|---|"]
    return "\n".join((*rows, *(f"| {' | '.join(row)} |" for row in facts.data)))
