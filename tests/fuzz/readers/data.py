"""Data files of all formats, and the files of prepared data."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from glassformer.data.data_config import DataSettings
from glassformer.data.records import Records
from glassformer.storage.parsing import MAX_DEPTH, is_flat
from glassformer.train.batches.memmap_dataset import ExampleBlock, MemmapDataset, MemmapWriter
from glassformer.train.objectives.tally import Tally
from tests.fuzz.readers import _made
from tests.fuzz.registry import Sample, SilentlyWrongError, reader

ROWS = [{"text": f'Sentence {i}, "quoted".', "label": "ab"[i % 2], "n": i} for i in range(8)]


def reading(**settings: Any) -> Callable[[Path], None]:
    """Returns a reader of all records, which compares those of JSON lines and numpy."""

    def read(folder: Path) -> None:
        paths = sorted(path for path in folder.iterdir() if path.is_file())
        names = tuple(str(path) for path in paths)
        records = list(
            Records(DataSettings(train=names, on_error="skip", **settings), "train").strict()
        )
        for record in records:
            if "where" not in record:
                raise SilentlyWrongError("a record does not say where it is")
        if paths[0].suffix == ".npy":
            joined = np.concatenate([record["tokens"] for record in records])
            if not np.array_equal(joined, np.load(paths[0])):
                raise SilentlyWrongError("the tokens are not those that numpy reads")
        if paths[0].suffix == ".jsonl":
            expected = [value for line in paths[0].read_bytes().split(b"\n")
                        if isinstance(value := parsed(line), dict)]  # fmt: skip
            found = [{k: v for k, v in record.items() if k != "where"} for record in records]
            if repr(found) != repr(
                [{k: v for k, v in e.items() if k != "where"} for e in expected]
            ):
                raise SilentlyWrongError("the records are not those that json reads")

    return read


def all_records(path: Path) -> list[dict[str, Any]]:
    settings = DataSettings(train=(str(path),), on_error="skip")
    return [dict(record) for record in Records(settings, "train").strict()]


def parsed(line: bytes) -> Any:
    try:
        value = json.loads(line.decode().removeprefix("\ufeff"))
        return value if is_flat(value, MAX_DEPTH) else None
    except (ValueError, RecursionError):
        return None


@reader("text", read=reading())
def texts() -> Iterator[Sample]:
    content = "A line.\n\nAnother one, é 你好.\r\nThe last".encode()
    yield Sample({"a.txt": content})
    yield Sample({"a.txt.gz": gzip.compress(content, mtime=0)})


@reader("jsonl", read=reading(), weight=2)
def json_lines() -> Iterator[Sample]:
    yield Sample({"a.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS).encode()})


@reader("csv, tsv", read=reading())
def tables() -> Iterator[Sample]:
    for ending, delimiter in (("csv", ","), ("tsv", "\t")):
        file = io.StringIO()
        writer = csv.DictWriter(file, list(ROWS[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(ROWS)
        yield Sample({f"a.{ending}": file.getvalue().encode()})


@reader("parquet", read=reading())
def parquets() -> Iterator[Sample]:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), file)
    yield Sample({"a.parquet": file.getvalue()})


@reader("conll", read=reading(format="conll"))
def sentences() -> Iterator[Sample]:
    lines = ["-DOCSTART- O", "", "Anna B-PER", "lives O", "in O", "Paris B-LOC", "", "Bye O", ""]
    yield Sample({"a.conll": "\n".join(lines).encode()})


@reader("squad", read=reading(format="squad"), weight=2)
def questions() -> Iterator[Sample]:
    answers = [{"text": "Paris", "answer_start": 8}]
    qas = [
        {"id": f"{i}", "question": "Where?", "answers": answers, "is_impossible": False}
        for i in (1, 2)
    ]
    paragraphs = [{"context": "Anna in Paris.", "qas": qas}]
    yield Sample(
        {"a.json": json.dumps({"data": [{"title": "x", "paragraphs": paragraphs}]}).encode()}
    )


def read_parallel(folder: Path) -> None:
    files = tuple(str(path) for path in sorted(folder.iterdir()))
    settings = DataSettings(train=files, format="parallel", on_error="skip")
    for record in Records(settings, "train").strict():
        if not {"source", "target"} <= record.keys():
            raise SilentlyWrongError("a pair has no source or target")


@reader("parallel text", read=read_parallel)
def pairs() -> Iterator[Sample]:
    yield Sample({"a.de": "Ein Haus.\nZwei Häuser.\n".encode(), "a.en": b"A house.\nTwo houses.\n"})
    yield Sample({"a.tsv": b"Ein Haus.\tA house.\nZwei.\tTwo.\n"})


@reader("npy", read=reading(), weight=2)
def token_arrays() -> Iterator[Sample]:
    for kind in ("uint16", "int64"):
        file = io.BytesIO()
        np.save(file, np.arange(50, dtype=kind))
        yield Sample({"a.npy": file.getvalue()})


def read_prepared(folder: Path) -> None:
    data = MemmapDataset(folder)
    for number in range(min(len(data), 50)):
        data[number]
    data.lengths()
    if data.parallel:
        data.slices(np.array([0]), np.array([data.size]))
        assert len(data.document_starts) <= len(data)


@reader("prepared data", read=read_prepared, weight=2)
def prepared() -> Iterator[Sample]:
    def write(folder: Path) -> None:
        writer = MemmapWriter(folder, {"tokens": np.uint16, "text": np.uint8})
        lengths = np.array([3, 2, 4])
        values = {"tokens": np.arange(9, dtype=np.uint16), "text": np.arange(9, dtype=np.uint8)}
        begins = np.array([True, False, True])
        by_field = {"tokens": lengths, "text": lengths}
        writer.add(ExampleBlock(values, by_field, begins, [], Tally()))
        writer.close({})

    yield Sample(_made.written(write))
