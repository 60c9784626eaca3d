"""Makes train.jsonl, valid.jsonl and test.jsonl of each data set, with `text` and `label`, for the
recipes beside this file:

    python recipes/classify/prepare.py data data/classify

What has no split of its own is shuffled by seed 1: a tenth to choose the best step by, and where
there is no test set another tenth for that. CLINC150's test has what is out of scope, with null as
its label; so has `scope.jsonl`, from which a threshold is found.
"""

from __future__ import annotations

import csv
import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path

Rows = list[tuple[str, str | None]]


def table(
    path: Path, text: str | int, label: str | int, *, encoding: str = "utf-8", tabs: bool = False
) -> Rows:
    """Columns by their names in the header, or where there is none by their numbers."""
    quotes = csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
    with path.open(encoding=encoding, newline="") as stream:
        reader = csv.reader(stream, delimiter="\t" if tabs else ",", quoting=quotes)
        header = next(reader) if isinstance(text, str) else []
        places = [header.index(c) if isinstance(c, str) else c for c in (text, label)]
        rows = [(row[places[0]].strip(), row[places[1]]) for row in reader]
    return [row for row in rows if row[0]]


def cut(rows: Rows, parts: int) -> list[Rows]:
    """All but the last are a tenth each; the first of what comes back is the rest."""
    mixed = random.Random(1).sample(rows, len(rows))
    size = len(rows) // 10
    tenths = [mixed[i * size : (i + 1) * size] for i in range(parts)]
    return [mixed[parts * size :], *tenths]


def sst2(data: Path) -> list[Rows]:
    rest, valid = cut(table(data / "glue/SST-2/train.tsv", "sentence", "label", tabs=True), 1)
    return [rest, valid, table(data / "glue/SST-2/dev.tsv", "sentence", "label", tabs=True)]


def banking77(data: Path) -> list[Rows]:
    rest, valid = cut(table(data / "banking77/train.csv", "text", "category"), 1)
    return [rest, valid, table(data / "banking77/test.csv", "text", "category")]


def phrasebank(data: Path) -> list[Rows]:
    path = data / "financial_phrasebank/all-data.csv"
    return cut(table(path, "news", "label", encoding="latin-1"), 2)


def ag_news(data: Path) -> list[Rows]:
    rest, valid = cut(table(data / "ag_news/train_10001.tsv", 0, 1, tabs=True), 1)
    return [rest, valid, table(data / "ag_news/test.tsv", 0, 1, tabs=True)]


def chnsenticorp(data: Path) -> list[Rows]:
    return cut(table(data / "chnsenticorp_htl/ChnSentiCorp_htl_all.csv", "review", "label"), 2)


def clinc150(data: Path) -> list[Rows]:
    parts = json.loads((data / "clinc150/data_full.json").read_text("utf-8"))

    def scope(name: str) -> Rows:
        return [(text, None) for text, _ in parts[name]]

    def rows(name: str) -> Rows:
        return [(text, label) for text, label in parts[name]]

    test = rows("test") + scope("oos_test")
    return [rows("train"), rows("val"), test, rows("val") + scope("oos_val")]


SETS = (sst2, banking77, phrasebank, ag_news, chnsenticorp, clinc150)


def write(path: Path, rows: Iterable[tuple[str, str | None]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"text": t, "label": x}, ensure_ascii=False) + "\n" for t, x in rows)
    path.write_text("".join(lines), "utf-8")


def main(data: str, out: str) -> None:
    for make in SETS:
        names = ("train", "valid", "test", "scope")
        for name, rows in zip(names, make(Path(data)), strict=False):
            write(Path(out) / make.__name__ / f"{name}.jsonl", rows)
            print(f"{make.__name__}/{name}.jsonl: {len(rows):,}")


if __name__ == "__main__":
    main(*sys.argv[1:])
