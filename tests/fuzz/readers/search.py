"""Search indexes, settings of sentence embeddings, and word vectors."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

import glassformer as gf
from glassformer.tasks.pooling import Pooling, read_pooling, write_pooling
from glassformer.tasks.search.index import Added, IndexRows
from glassformer.tasks.search.passages import Passage
from glassformer.word_vectors import Vectors, read_vectors, write_vectors
from tests.fuzz.mutate import BYTES
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


@cache
def embedder() -> gf.Model:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
             "intermediate_size": 8, "max_position_embeddings": 16}  # fmt: skip
    words = _made.tokenizer("wordpiece", 120)
    return gf.create("bert-base", seed=1, tokenizer=words, vocab_size=words.size, **sizes)


def use_index(folder: Path) -> None:
    """Opens an index with its model, brings it up to date and searches."""
    index = gf.open_index(folder / "index", embedder())
    index.update(folder / "texts")
    hits = index.search("time", 2)
    for hit in hits:
        if not np.isfinite(hit.score) or hit.file not in index.files:
            raise SilentlyWrongError(f"a hit is {hit}")
    index.update()


@reader("opened index", read=use_index, weight=3)
def opened_indexes() -> Iterator[Sample]:
    def write(folder: Path) -> None:
        (folder / "texts").mkdir()
        (folder / "texts" / "a.txt").write_text("Time flies like an arrow.")
        gf.open_index(folder / "index", embedder(), folder / "texts").update()
        (folder / "texts" / "b.md").write_text("Fruit flies like a banana.")

    files = _made.written(write)
    wanted = ("index/header.json", "index/rows-1/journal.jsonl", "texts/b.md")
    yield Sample(files, wanted[:1])
    yield Sample(files, wanted)


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


def change_sizes(rng: Random, content: bytes) -> bytes:
    """Changes a number of the first line."""
    first, newline, rest = content.partition(b"\n")
    numbers = first.split(b" ")
    huge = (b"0", b"-1", b"1", b"4294967296", b"9" * 15, b"9" * 19, b"9" * 5000)
    numbers[rng.randrange(len(numbers))] = rng.choice(huge)
    return b" ".join(numbers) + newline + rest


def change_packed(rng: Random, content: bytes) -> bytes:
    """Changes what is compressed, or the compressed bytes."""
    if rng.random() < 0.3:
        return rng.choice(BYTES)(rng, content)
    return gzip.compress(change_sizes(rng, gzip.decompress(content)), mtime=0)


CHANGES = {".bin": change_sizes, ".txt": change_sizes, ".gz": change_packed}


@reader("word vectors", read=read_word_vectors, mutations=CHANGES, weight=3)
def word_vectors() -> Iterator[Sample]:
    words = ["time", "flies", "an", "arrow", "你好"]
    vectors = Vectors(words, np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32))
    for name in ("a.bin", "a.txt"):
        yield Sample(_made.written(lambda folder, name=name: write_vectors(folder / name, vectors)))
    lines = (
        f"{w} {' '.join(map(str, row))}\n" for w, row in zip(words, vectors.table, strict=True)
    )
    plain = "".join(lines).encode()
    yield Sample({"glove.txt": plain})
    yield Sample({"a.txt.gz": gzip.compress(b"5 6\n" + plain, mtime=0)})
