"""Publishes what the last run of the family harness measured (see `make equality`): the largest
difference of every class, for `glassformer families` and docs/families.md."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers

from glassformer.cli.families import MEASURED, rows
from glassformer.families import classes_of, families

ROOT = Path(__file__).parent.parent


def main() -> None:
    found: dict[str, float] = {}
    for path in (ROOT / "build" / "differences").glob("*.json"):
        for name, value in json.loads(path.read_text()).items():
            found[name] = max(found.get(name, 0.0), value)
    known = [c for kind, f in families().items() if f.TINY for c in classes_of(f, kind)]
    missing = [name for name in known if name not in found]
    if missing:
        raise SystemExit(f"not measured: {', '.join(missing)}; run the whole harness first")
    by = {"torch": torch.__version__, "transformers": transformers.__version__}
    content = {"measured with": by, "differences": {name: found[name] for name in sorted(found)}}
    MEASURED.write_text(json.dumps(content, indent=1) + "\n")
    lines = [
        "# Families",
        "",
        "Every published class, and the largest absolute difference to the reference's logits and",
        f"last hidden states that the harness saw (float32, transformers {by['transformers']},",
        f"torch {by['torch']}). Models that it does not have stand beside a plain reference that",
        "was written from the paper (tests/families/plain). Made by `make equality`.",
        "",
        "| family | model type | class | largest difference |",
        "|---|---|---|---|",
    ]
    lines += [f"| {row.family} | {row.model_type} | {row.name} | {row.shown} |" for row in rows()]
    (ROOT / "docs" / "families.md").write_text("\n".join(lines) + "\n")
    print(f"{len(found)} classes, the largest difference {max(found.values()):.1e}")


if __name__ == "__main__":
    main()
