"""Makes files in the usual formats of those that are not, for wikiann.toml and squad.toml:

    python recipes/prepare.py data

WikiANN's words lose the language before them (`en:Sioux`). The questions of SQuAD get the place of
their answer, where it first stands in the context, and a tenth of the contexts is set apart to
choose the best step by."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any


def wikiann(data: Path) -> None:
    target = data / "tag" / "wikiann"
    target.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        lines = (data / "wikiann" / "en" / f"{split}.txt").read_text("utf-8").splitlines()
        words = (line.removeprefix("en:") for line in lines)
        (target / f"{split}.conll").write_text("\n".join(words) + "\n", "utf-8")


def squad(data: Path) -> None:
    target = data / "answer" / "squad"
    target.mkdir(parents=True, exist_ok=True)
    asked = json.loads((data / "squad1_subset" / "squad_4330.json").read_text("utf-8"))
    contexts = sorted({one["context"] for one in asked})
    apart = {*random.Random(1).sample(contexts, len(contexts) // 10)}
    parts: dict[str, list[dict[str, Any]]] = {"train": [], "valid": []}
    for number, one in enumerate(asked):
        answer = {"text": one["answer"], "answer_start": one["context"].index(one["answer"])}
        question = {"id": str(number), "question": one["question"], "answers": [answer]}
        part = parts["valid" if one["context"] in apart else "train"]
        part.append({"context": one["context"], "qas": [question]})
    for name, paragraphs in parts.items():
        text = json.dumps({"data": [{"paragraphs": paragraphs}]}, ensure_ascii=False)
        (target / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    wikiann(Path(sys.argv[1]))
    squad(Path(sys.argv[1]))
