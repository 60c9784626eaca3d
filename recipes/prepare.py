"""Makes files in the usual formats of those that are not, for wikiann.toml, squad.toml and
together.toml (the last of what recipes/classify/prepare.py has made, and of WikiANN):

    python recipes/prepare.py data [TARGET]

WikiANN's words lose the language before them (`en:Sioux`). The questions of SQuAD get the place of
their answer, where it first stands in the context, and a tenth of the contexts is set apart to
choose the best step by. Of the three tasks of together.toml each gives as many texts to learn
from, and each text says whose it is."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

EACH = 9000  # texts of a task; of its test set at most as many


def wikiann(data: Path, target: Path) -> None:
    target = target / "tag" / "wikiann"
    target.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        lines = (data / "wikiann" / "en" / f"{split}.txt").read_text("utf-8").splitlines()
        words = (line.removeprefix("en:") for line in lines)
        (target / f"{split}.conll").write_text("\n".join(words) + "\n", "utf-8")


def squad(data: Path, target: Path) -> None:
    target = target / "answer" / "squad"
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


def together(data: Path) -> None:
    target = data / "together"
    target.mkdir(parents=True, exist_ok=True)
    for split in ("train", "valid", "test"):
        found: dict[str, list[dict[str, Any]]] = {}
        for part, name in (("classification", "ag_news"), ("classification-2", "sst2")):
            text = (data / "classify" / name / f"{split}.jsonl").read_text("utf-8")
            found[part] = [json.loads(line) for line in text.split("\n") if line]
        tagged = "dev" if split == "valid" else split
        text = (data / "tag" / "wikiann" / f"{tagged}.conll").read_text("utf-8")
        sentences = [[line.split("\t") for line in one.split("\n")] for one in text.split("\n\n")]
        found["tagging"] = [
            {"words": [word for word, _ in one], "tags": [tag for _, tag in one]}
            for one in ([row for row in rows if len(row) == 2] for rows in sentences)
            if one
        ]
        for part, records in found.items():
            lines = (json.dumps({"objective": part, **one}) + "\n" for one in records[:EACH])
            (target / f"{part}-{split}.jsonl").write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    source, target = Path(sys.argv[1]), Path(sys.argv[-1])
    wikiann(source, target)
    squad(source, target)
    if (target / "classify").exists():
        together(target)
