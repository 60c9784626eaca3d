"""Search indexes, settings of sentence embeddings, and word vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from glassformer.tasks.pooling import Pooling, read_pooling, write_pooling
from glassformer.tasks.search.index import Added, IndexRows
from glassformer.tasks.search.passages import Passage
from glassformer.word_vectors import Vectors, read_vectors, write_vectors
from tests.fuzz.readers import _made
from tests.fuzz.registry import Sample, SilentlyWrongError, reader


def read_index(folder: Path) -> None:
    rows = IndexRows.open(folder)
    if not rows.live:
        return
    query = np.ones((1, rows.width), np.float32)
    for score, row in rows.nearest(query, 3)[0]:
        if not np.isfinite(score):
            raise SilentlyWrongError(f"a score is {score}")
        rows.passage(row)
    rows.files_of([row for first, count, _ in rows.ranges() for row in range(first, first + count)])
    with rows.writing():
        rows.add([added("new", 1, rows.width)])
        rows.compact()


def added(file: str, count: int, width: int = 4) -> Added:
    passages = [Passage(i, i + 5, f"{file} {i}") for i in range(count)]
    return Added(
        file, f"of {count}", passages, np.eye(width, dtype=np.float32)[:1].repeat(count, 0), True
    )


@reader("search index", read=read_index, weight=4)
def indexes() -> Iterator[Sample]:
    for kept in ("float16", "float32"):

        def write(folder: Path, kept: str = kept) -> None:
            rows = IndexRows.create(folder, {"width": 4, "kept": kept, "model": "x", "texts": "x"})
            for count in (3, 4, 1):
                rows.add([added("a", count), added("b", 1)])

        yield Sample(_made.written(write))


def read_sentences(folder: Path) -> None:
    pooling = read_pooling(folder)
    if pooling is not None:
        pooling.record()


@reader("pooling", read=read_sentences, weight=2)
def poolings() -> Iterator[Sample]:
    one = Pooling(modes=("mean",), normalize=True, length=128, prompts={"query": "q: "},
                  prompt="query", skip_prompt=True, similarity="cosine")  # fmt: skip
    for pooling in (one, Pooling(modes=("last", "max"))):
        yield Sample(_made.written(lambda folder, p=pooling: write_pooling(p, folder, 16)))


def read_word_vectors(folder: Path) -> None:
    path = next(folder.iterdir())
    vectors = read_vectors(path)
    if vectors.table.shape != (len(vectors.words), vectors.size):
        raise SilentlyWrongError("as many words as rows are expected")
    vectors.unit  # noqa: B018 - computed at the first use


@reader("word vectors", read=read_word_vectors, weight=2)
def word_vectors() -> Iterator[Sample]:
    words = ["time", "flies", "an", "arrow", "你好"]
    vectors = Vectors(words, np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32))
    for name in ("a.bin", "a.txt"):
        yield Sample(_made.written(lambda folder, name=name: write_vectors(folder / name, vectors)))
    lines = (
        f"{w} {' '.join(map(str, row))}\n" for w, row in zip(words, vectors.table, strict=True)
    )
    yield Sample({"glove.txt": "".join(lines).encode()})
