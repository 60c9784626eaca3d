"""Tokenized datasets are deterministic, made once, and complete or absent."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest

import glassformer as gf
from glassformer.data.data_config import DataSettings
from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer, train
from glassformer.train.batches import tokenize_dataset
from glassformer.train.batches.memmap_dataset import MemmapDataset, MemmapWriter, block_of
from glassformer.train.batches.tokenize_dataset import prepare
from glassformer.train.batches.worker_process import without_weights
from tests.train.batches.letters import END, Letters, numbers, stream


@pytest.fixture
def text(tmp_path):
    """Lines of different length, by hand a known stream."""
    lines = [f"{i} " + "wörd " * (i * 7 % 23) for i in range(3000)]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines), "utf-8")
    return DataSettings(train=(str(path),), document_boundary="line", num_workers=1)


def files(store: MemmapDataset) -> dict[str, bytes]:
    """All there is but what names places and times."""
    return {path.name: path.read_bytes() for path in sorted(store.folder.iterdir())}


def test_what_was_prepared_is_what_is_read(text, tmp_path):
    store = prepare(text, "train", Letters(), tmp_path / "cache", about={})
    lines = (tmp_path / "a.txt").read_text("utf-8").split("\n")
    assert len(store) == store.documents == len(lines) and store.parallel
    for number in (0, 1, 1234, 2999):
        example = store[number]
        assert example["tokens"].dtype == np.uint16 and example["places"].dtype == np.uint32
        assert example["tokens"].tolist() == [*map(ord, lines[number]), END]
        example["tokens"][0] = 7  # the objective's own to change
        assert store[number]["tokens"][0] != 7
    every = [id for line in lines for id in (*map(ord, line), END)]
    assert store.size == len(every) == store.lengths().sum()
    assert stream(store, 500, 2500)["tokens"].tolist() == every[500:2500]
    documents = np.repeat(np.arange(len(lines)), [len(line) + 1 for line in lines])
    for start, end in ((0, 10), (500, 2500), (store.size - 300, store.size)):
        expected = documents[start:end] - documents[start]
        assert numbers(store, start, end).tolist() == expected.tolist()


@pytest.fixture
def eager(monkeypatch):
    """Processes are started for little, and get little at a time."""
    monkeypatch.setattr(tokenize_dataset, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(tokenize_dataset, "BLOCK_RECORDS", 97)


def test_processes_change_nothing(text, tmp_path, eager):
    stores = []
    seen: list[tuple[int, int]] = []
    for processes in (1, 2, 3):
        settings = dataclasses.replace(text, num_workers=processes)
        cache = tmp_path / str(processes)
        told = lambda done, total: seen.append((done, total))  # noqa: E731
        stores.append(prepare(settings, "train", Letters(), cache, about={}, progress=told))
    one, two, three = map(files, stores)
    assert one == two == three and len(one) == 6
    third = len(seen) // 3
    assert seen[:third] == seen[third : 2 * third] == seen[2 * third :]
    assert [done for done, _ in seen[:third]] == sorted(done for done, _ in seen[:third])
    assert seen[-1] == ((tmp_path / "a.txt").stat().st_size,) * 2


def test_an_error_in_a_process_is_said_here(text, tmp_path, eager):
    path = tmp_path / "a.txt"
    path.write_text(path.read_text("utf-8").replace("\n2000 ", "\n2000! "), "utf-8")
    settings = dataclasses.replace(text, num_workers=2)
    with pytest.raises(GlassformerError, match=r"a.txt:2001: nobody shouts here"):
        prepare(settings, "train", Letters(), tmp_path / "cache", about={})
    assert not list((tmp_path / "cache").glob("**/*.bin"))


def test_a_process_that_dies_is_no_riddle(text, tmp_path, eager):
    path = tmp_path / "a.txt"
    path.write_text(path.read_text("utf-8").replace("\n2000 ", "\n2000% "), "utf-8")
    settings = dataclasses.replace(text, num_workers=2)
    with pytest.raises(GlassformerError, match=r"has died, .*fewer with data\.num_workers"):
        prepare(settings, "train", Letters(), tmp_path / "cache", about={})


def test_blocks_change_nothing(text, tmp_path, monkeypatch):
    first = files(prepare(text, "train", Letters(), tmp_path / "cache", about={}))
    for size in (1, 1001, 5000):
        monkeypatch.setattr(tokenize_dataset, "BLOCK_RECORDS", size)
        again = files(prepare(text, "train", Letters(), tmp_path / str(size), about={}))
        assert again == first


def test_once_is_enough_until_something_changes(text, tmp_path):
    calls = []

    def made(settings=text, **about):
        calls.clear()
        told = lambda *_: calls.append(1)  # noqa: E731
        prepare(settings, "train", Letters(), tmp_path / "cache", about=about, progress=told)
        return bool(calls)

    path = tmp_path / "a.txt"
    assert made(x=1) and not made(x=1)
    assert made(x=2), "an option"
    assert made(dataclasses.replace(text, document_boundary="file"), x=1), "how files are read"
    assert not made(dataclasses.replace(text, sequence_length=8), x=1), "that is about rows"
    os.utime(path, (1, 1))
    assert made(x=1) and not made(x=1), "the time"
    path.write_text(path.read_text("utf-8") + "more", "utf-8")
    os.utime(path, (1, 1))
    assert made(x=1), "the size"
    path.rename(tmp_path / "b.txt")
    assert made(dataclasses.replace(text, train=(str(tmp_path / "b.txt"),)), x=1), "the name"


def test_what_is_skipped_is_counted(text, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nbad!\n\xff\nfine\n")
    with pytest.raises(GlassformerError, match=r"a.txt:2: nobody shouts here"):
        prepare(text, "train", Letters(), tmp_path / "cache", about={})
    settings = dataclasses.replace(text, on_error="skip")
    store = prepare(settings, "train", Letters(), tmp_path / "cache", about={})
    assert len(store) == 2 and store.skipped == 2
    assert "a.txt:2: nobody" in store.reasons[0] and "a.txt:3: the byte 0xff" in store.reasons[1]
    path.write_text("bad!\n")
    with pytest.raises(
        GlassformerError, match=r"no records in data.train.*None of 1 .*a.txt:1: nobody"
    ):
        prepare(settings, "train", Letters(), tmp_path / "cache", about={})
    path.write_text("\n \n")
    with pytest.raises(GlassformerError, match=r"There are no records in data.train"):
        prepare(settings, "train", Letters(), tmp_path / "cache", about={})


def test_a_long_document_stays_one(tmp_path, monkeypatch):
    whole = "".join(f"line {i}\n" for i in range(20_000))  # more than a piece
    (tmp_path / "a.txt").write_text(whole)
    (tmp_path / "b.txt").write_text("short")
    settings = DataSettings(train=(str(tmp_path / "*.txt"),))
    store = prepare(settings, "train", Letters(), tmp_path / "cache", about={})
    assert len(store) > 2 and store.documents == 2
    tokens = stream(store, 0, store.size)["tokens"]
    assert tokens.tolist() == [*map(ord, whole), END, *map(ord, "short"), END]
    expected = [0] * (len(whole) + 1) + [1] * 6
    assert numbers(store, 0, store.size).tolist() == expected


def test_who_asks_at_the_same_time_waits(text, tmp_path):
    begun, done = threading.Event(), []

    def told(done_bytes, total):
        done.append(threading.current_thread().name)
        begun.set()
        time.sleep(0.01)

    def ask():
        prepare(text, "train", Letters(), tmp_path / "cache", about={}, progress=told)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    threads[0].start()
    begun.wait()
    threads[1].start()
    for thread in threads:
        thread.join()
    assert set(done) == {threads[0].name}


KILLED = """
import os, sys
from glassformer.train.batches.tokenize_dataset import prepare
from glassformer.data.data_config import DataSettings
from tests.train.batches.letters import Letters, numbers, stream

class Slow(Letters):
    def prepare(self, record):
        if record["where"].endswith(":1500"):
            print("half", flush=True)
            sys.stdin.read()
        return super().prepare(record)

settings = DataSettings(train=(sys.argv[1],), document_boundary="line", num_workers=1)
prepare(settings, "train", Slow(), sys.argv[2], about={})
"""


def test_a_killed_preparation_is_begun_again(text, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, *text.train, str(cache)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert process.stdout.readline() == b"half\n"
    assert list(cache.glob(".train-*"))  # a draft
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    store = prepare(text, "train", Letters(), cache, about={})
    assert files(store) == files(prepare(text, "train", Letters(), tmp_path / "new", about={}))
    assert not list(cache.glob(".train-*"))


def test_processes_end_with_the_one_that_started_them(tmp_path):
    """Also where that one is killed: they see that nothing will come any more."""
    script = (
        "import sys\n"
        "from glassformer.train.batches.tokenize_workers import TokenizeWorker\n"
        "from glassformer.train.batches.worker_process import without_weights\n"
        "from tests.train.batches.letters import Letters\n"
        "worker = TokenizeWorker(without_weights(Letters()))\n"
        "worker.prepared([{'text': 'x'}], False)\n"
        "print(worker._process._process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    worker = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    for _ in range(600):
        if not _runs(worker):
            break
        time.sleep(0.05)
    assert not _runs(worker)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_interrupted_it_leaves_nothing(text, tmp_path):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(text, "train", Letters(), tmp_path / "cache", about={}, progress=interrupt)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_a_full_disk(text, tmp_path):
    """A limit of a file's size stands for it."""
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(GlassformerError, match=r"could not be written \(File too large\)"):
            prepare(text, "train", Letters(), tmp_path / "cache", about={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
    assert len(prepare(text, "train", Letters(), tmp_path / "cache", about={})) == 3000


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    """A file of 5 MB in blocks of 32 KiB: writing and reading hold a small part of it."""
    monkeypatch.setattr(tokenize_dataset, "BLOCK_BYTES", 2**15)
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{'a line of text ' * 13} {i}\n" for i in range(26_000)))
    size = path.stat().st_size
    assert size > 5_000_000

    class Few(Letters):
        def prepare(self, record):
            yield {"tokens": np.zeros(100, np.uint16), "places": np.zeros(100, np.uint32)}

    settings = DataSettings(train=(str(path),), document_boundary="line", num_workers=1)
    tracemalloc.start()
    store = prepare(settings, "train", Few(), tmp_path / "cache", about={})
    assert stream(store, 10**6, 10**6 + 500)["tokens"].shape == (500,)
    assert numbers(store, 10**6, 10**6 + 500)[-1] == 4
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert store.size * 6 > 15_000_000 and most < 2_000_000


def test_numbers_that_do_not_fit_their_field():
    with pytest.raises(GlassformerError, match="stored as uint16, and 0 to 70000 do not fit"):
        block_of([{"a": np.array([0, 70000])}], [True], [], {"a": np.uint16})
    kept = block_of([{"a": np.array([0.5, 2.0])}], [True], [], {"a": np.float32})
    assert kept.values["a"].tolist() == [0.5, 2.0]


def test_fields_of_different_lengths(tmp_path):
    fields = {"tokens": np.uint16, "part/label": np.int64, "said": np.uint8}
    examples = [
        {
            "tokens": np.arange(n),
            "part/label": np.array([n]),
            "said": np.frombuffer(b"bytes of text", np.uint8),
        }
        for n in (3, 0, 5)
    ]
    writer = MemmapWriter(tmp_path, fields)
    writer.add(block_of(examples[:1], [True], [], fields))
    writer.add(block_of([], [], [], fields))
    writer.add(block_of(examples[1:], [True, True], [], fields))
    writer.close({})
    store = MemmapDataset(tmp_path)
    assert not store.parallel and len(store) == 3
    assert store.lengths().tolist() == [3, 1, 5]
    for number, example in enumerate(examples):
        found = store[number]
        assert all(found[name].tolist() == example[name].tolist() for name in fields)


def test_a_field_whose_name_is_no_text(tmp_path):
    writer = MemmapWriter(tmp_path, {"tokens": np.uint16})
    writer.close({})
    path = tmp_path / "header.json"
    path.write_text(path.read_text().replace('"tokens"', '"\\ud800"'))
    with pytest.raises(gf.LoadError, match=r"header\.json is damaged"):
        MemmapDataset(tmp_path)


def test_objectives_that_cannot_travel_stay_at_home(text, tmp_path, eager):
    class Local(Letters):
        pass

    assert without_weights(Local()) is None
    settings = dataclasses.replace(text, num_workers=2)
    assert len(prepare(settings, "train", Local(), tmp_path / "cache", about={})) == 3000
    with_a_net = Letters()
    with_a_net.teacher = gf.create("gpt2", n_layer=1, n_head=2, n_embd=8, vocab_size=9)
    travelling = without_weights(with_a_net)
    assert travelling is not None and len(travelling) < 5000, "without weights"


def test_tokenizers_are_told_apart(tmp_path):
    one = train("char", texts=["abc"])
    one.save(tmp_path)
    assert one.fingerprint == train("char", texts=["abc"]).fingerprint
    assert one.fingerprint == Tokenizer.load(tmp_path).fingerprint
    assert one.fingerprint != train("char", texts=["abcd"]).fingerprint
    config = tmp_path / "tokenizer_config.json"
    settings = json.loads(config.read_text())
    config.write_text(json.dumps(dict(reversed(settings.items()))))
    assert one.fingerprint == Tokenizer.load(tmp_path).fingerprint
    config.write_text(json.dumps({**settings, "padding_side": "left"}))
    assert one.fingerprint != Tokenizer.load(tmp_path).fingerprint
    assert gf.Tokenizer is Tokenizer


def test_a_folder_that_cannot_be_written(text, tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(GlassformerError, match=r"name another folder as data.cache"):
        prepare(text, "train", Letters(), tmp_path / "cache", about={})
