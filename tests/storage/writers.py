"""The writers that are tried with faults: each over an old state that differs from its new one."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import numpy as np
from faults import writer

import glassformer as gf
from glassformer import adapters
from glassformer.generate.batch import BatchJob
from glassformer.inside.lens.tuned_lens import TunedLens, TunedLensFacts
from glassformer.inside.show.html import save as save_page
from glassformer.signals.midi import Note, read_midi, write_midi
from glassformer.storage.folders import atomic_folder, complete_pending_save
from glassformer.tasks.pooling import Pooling
from glassformer.tasks.search.index import Added, IndexRows
from glassformer.tasks.search.passages import Passage
from glassformer.tasks.search.vectors_file import whole_matrix
from glassformer.text import Tokenizer
from glassformer.text import train as train_tokenizer
from glassformer.train.batches.memmap_dataset import MemmapDataset, MemmapWriter, block_of
from glassformer.word_vectors.files import read_vectors, write_vectors
from glassformer.word_vectors.space import Vectors

SIZES = {"n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 8}
SHARDS = {"two": 3000, "four": 1500}  # bytes of one


@cache
def tokenizer(words: str) -> Tokenizer:
    return train_tokenizer("byte-bpe", texts=[words] * 4, vocab_size=270)


@cache
def model(kind: str) -> gf.Model:
    """Those of the two kinds differ in their config.json, their weights and their words."""
    old = kind == "old"
    made = gf.create(
        "gpt2",
        seed=1 if old else 2,
        tokenizer=tokenizer("some old words" if old else "newer ones, others"),
        vocab_size=272 if old else 280,
        **SIZES,
    )
    made.generation_config = {"max_new_tokens": 3 if old else 5}
    return made


def bytes_of(tensors):
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def read_model(place: Path):
    loaded = gf.load(place / "it")
    known = loaded.tokenizer.fingerprint if loaded.tokenizer else None
    tensors = bytes_of({n: t.detach() for n, t in loaded.state_dict().items()})
    return loaded.config, loaded.generation_config, known, loaded.pooling, tensors


def read_by_transformers(place: Path):
    from transformers import GPT2LMHeadModel, logging

    logging.set_verbosity_error()
    read = GPT2LMHeadModel.from_pretrained(place / "it", local_files_only=True)
    return read.config.vocab_size, bytes_of({n: t.detach() for n, t in read.state_dict().items()})


def save(kind: str, shards: str, place: Path) -> None:
    model(kind).save(place / "it", **({"shard_bytes": SHARDS[shards]} if shards in SHARDS else {}))


for before, after in (("one", "one"), ("one", "two"), ("four", "one"), ("four", "two")):
    old = partial(save, "old", before)
    register = writer(f"model, {before} to {after}", old, read_model, read_by_transformers)
    register(partial(save, "new", after))


def old_behind_links(place: Path) -> None:
    """As the cache of the Hugging Face hub has it: the files are links to others."""
    save("old", "two", place)
    (place / "blobs").mkdir()
    for path in (place / "it").iterdir():
        path.rename(place / "blobs" / path.name)
        path.symlink_to(place / "blobs" / path.name)


@writer("model, over links to files", old_behind_links, read_model)
def over_links(place):
    save("new", "one", place)


def old_behind_a_link(place: Path) -> None:
    save("old", "four", place)
    (place / "it").rename(place / "real")
    (place / "it").symlink_to("real")


@writer("model, through a link to a folder", old_behind_a_link, read_model)
def through_a_link(place):
    save("new", "two", place)


def nothing(place: Path) -> None: ...


def read_if_there(read, name, place):
    return read(place) if (place / name).exists() else None


@writer("model, new folder", nothing, partial(read_if_there, read_model, "it"))
def new_folder(place):
    save("new", "two", place)


@writer("model, quantized", partial(save, "old", "two"), read_model)
def quantized(place):
    gf.create("gpt2", seed=3, vocab_size=280, **SIZES).quantize("int8").save(place / "it")


@writer("model, with pooling in folders", partial(save, "old", "one"), read_model)
def pooled(place):
    made = gf.create("gpt2", seed=4, vocab_size=280, **SIZES)
    made.pooling = Pooling(modes=("mean", "max"), normalize=True)
    made.save(place / "it")


def adapted(seed: int) -> gf.Model:
    made = gf.create("gpt2", seed=1, vocab_size=272, **SIZES)
    made.adapters.add(adapters.LoRA(rank=2 + seed, target_modules=("c_attn",)), seed=seed)
    return made


def read_adapted(place: Path):
    base = gf.create("gpt2", seed=1, vocab_size=272, **SIZES)
    complete_pending_save(place / "it")
    if not (place / "it" / "adapter_config.json").exists():
        return None
    base.adapters.load(place / "it")
    parts = adapters.active(base).parts
    return {name: bytes_of({"a": p.a.detach(), "b": p.b.detach()}) for name, p in parts.items()}


def save_adapter(seed: int, place: Path) -> None:
    adapted(seed).adapters.save(place / "it")


writer("adapter over an adapter", partial(save_adapter, 1), read_adapted)(partial(save_adapter, 2))


def read_both(place: Path):
    return read_model(place), read_adapted(place)


@writer("adapter beside its model", partial(save, "old", "two"), read_both)
def adapter_and_model(place):
    save_adapter(1, place)


def save_tokenizer(words: str, place: Path) -> None:
    tokenizer(words).save(place / "it")


writer(
    "tokenizer",
    partial(save_tokenizer, "some old words"),
    lambda place: Tokenizer.load(place / "it").fingerprint,
)(partial(save_tokenizer, "newer ones, others"))


def save_lens(steps: int, place: Path) -> None:
    import torch

    facts = TunedLensFacts("GPT2LMHeadModel", "lm", 3, 7, ("a", "b"), steps, 9, (0.5, 0.25))
    TunedLens(facts, torch.full((2, 3, 3), steps / 2), torch.zeros(2, 3)).save(place / "it")


def read_lens(place: Path):
    lens = TunedLens.load(place / "it")
    return lens.facts, bytes_of({"weight": lens.weight, "bias": lens.bias})


def lens_in_a_model(place: Path) -> None:
    save("old", "two", place)
    save_lens(1, place)


writer("lens", partial(save_lens, 1), read_lens)(partial(save_lens, 2))
writer("lens in a model's folder", lens_in_a_model, lambda p: (read_lens(p), read_model(p)))(
    partial(save_lens, 2)
)


def save_vectors(scale: float, name: str, place: Path) -> None:
    table = scale * np.arange(6, dtype=np.float32).reshape(2, 3)
    write_vectors(place / name, Vectors(["one", "two"], table))


for file in ("v.txt", "v.bin"):
    writer(
        f"word vectors, {file}",
        partial(save_vectors, 1.0, file),
        lambda place, file=file: read_vectors(place / file).table.tolist(),
    )(partial(save_vectors, 2.0, file))


def save_matrix(rows: int, place: Path) -> None:
    with whole_matrix(place / "it.npy", 3) as matrix:
        for row in range(rows):
            matrix.add(np.full(3, row))


writer("matrix", partial(save_matrix, 2), lambda place: np.load(place / "it.npy").tolist())(
    partial(save_matrix, 4)
)


def write_page(title: str, place: Path) -> None:
    save_page(place / "it.html", title, "<p>body</p>")


writer("page", partial(write_page, "old"), lambda place: (place / "it.html").read_text())(
    partial(write_page, "new")
)


def added(file: str, count: int, seed: int) -> Added:
    own = [Passage(i, i + 5, f"{file} é {i}") for i in range(count)]
    vectors = np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)
    return Added(file, f"digest-{seed}", own, vectors, True)


def make_index(place: Path) -> IndexRows:
    rows = IndexRows.create(place / "it", {"width": 4, "kept": "float32", "texts": "old"})
    rows.add([added("a", 2, 1), added("b", 1, 2)])
    return rows


def read_index(place: Path):
    if not IndexRows.there(place / "it"):
        return None
    rows = IndexRows.open(place / "it")
    return rows.header["texts"], {
        file: (
            entry.digest,
            entry.whole,
            [rows.passage(n) for first, count in entry.rows for n in range(first, first + count)],
            [rows.vectors[first : first + count].tolist() for first, count in entry.rows],
        )
        for file, entry in rows.entries.items()
    }


@writer("index, new", nothing, read_index)
def new_index(place):
    if not IndexRows.there(place / "it"):
        IndexRows.create(place / "it", {"width": 4, "kept": "float32", "texts": "new"})


@writer("index, files added and replaced", make_index, read_index)
def add_to_index(place):
    rows = IndexRows.open(place / "it")
    with rows.writing():
        if "c" not in rows.entries:
            rows.add([added("a", 3, 5), added("c", 2, 6)])


@writer("index, files forgotten", make_index, read_index)
def forget_in_index(place):
    rows = IndexRows.open(place / "it")
    with rows.writing():
        rows.forget([file for file in ("a", "b") if file in rows.entries])


@writer("index, header", make_index, read_index)
def change_header(place):
    rows = IndexRows.open(place / "it")
    with rows.writing():
        rows.header["texts"] = "elsewhere"
        rows.write_header()


def index_to_compact(place: Path) -> None:
    rows = make_index(place)
    rows.add([added("a", 1, 7)])
    rows.add([added("a", 2, 8)])
    rows.add([added("a", 1, 9)])


def read_size(place: Path):
    """The state is the same; the rows that are kept are fewer."""
    _, entries = read_index(place)
    texts = [passage.text for _, _, passages, _ in entries.values() for passage in passages]
    assert sorted(texts) == ["a é 0", "b é 0"]
    return IndexRows.open(place / "it").total


@writer("index, compacted", index_to_compact, read_size)
def compact_index(place):
    rows = IndexRows.open(place / "it")
    with rows.writing():
        rows.compact()


def unsorted(place: Path) -> None:
    (place / "in.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    (place / "out.jsonl").write_text('{"line": 2}\n{"line": 1}\n')


@writer("batch, sorted", unsorted, lambda place: (place / "out.jsonl").read_text())
def sort_batch(place):
    batch = BatchJob.__new__(BatchJob)
    batch.target = place / "out.jsonl"
    batch.sort()


def prepare_data(place: Path) -> None:
    with atomic_folder(place / "it") as draft:
        store = MemmapWriter(draft, {"tokens": np.int64})
        store.add(block_of([{"tokens": np.arange(3)}], [True], [], store.fields))
        store.close({})


def read_data(place: Path):
    return MemmapDataset(place / "it")[0]["tokens"].tolist()


writer("prepared data", nothing, partial(read_if_there, read_data, "it"))(prepare_data)


def write_notes(pitch: int, place: Path) -> None:
    write_midi([Note(start=0.0, end=1.0, pitch=pitch, velocity=64)], place / "it.mid")


def read_notes(place: Path):
    return [note.pitch for note in read_midi(place / "it.mid")]


writer("music", partial(write_notes, 60), read_notes)(partial(write_notes, 62))
