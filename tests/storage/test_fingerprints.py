"""Fingerprints: equal contents have equal ones, and other contents different ones."""

from __future__ import annotations

import os
import random

import pytest

from glassformer.errors import LoadError
from glassformer.storage import fingerprints as module
from glassformer.storage.fingerprints import fingerprints


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 16)


def test_every_byte_counts_whatever_its_chunk(tmp_path):
    data, draw = bytes(random.Random(1).randbytes(70)), random.Random(2)
    contents = {data, data[:-1], data + b"\0", data[:64], data[16:32] + data[:16] + data[32:], b""}
    for place in (0, 15, 16, 63, 69):
        contents.add(
            data[:place] + bytes([data[place] ^ draw.randrange(1, 256)]) + data[place + 1 :]
        )
    paths = []
    for number, content in enumerate(sorted(contents)):
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(content)
    found = fingerprints(paths)
    assert len(set(found.values())) == len(contents) == 11
    twin = tmp_path / "twin"
    twin.write_bytes(paths[3].read_bytes())
    os.utime(twin, (0, 0))
    assert fingerprints([twin])[twin] == found[paths[3]]


def test_progress_ends_with_the_total(tmp_path):
    sizes = {"a": 40, "b": 0, "c": 5}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"x" * size)
    told = []
    fingerprints(
        [tmp_path / name for name in sizes], lambda done, total: told.append((done, total))
    )
    assert told == [(16, 45), (32, 45), (40, 45), (45, 45)]


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"x")

    def refuse(self, *_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module.Path, "open", refuse)
    with pytest.raises(LoadError, match=r"/a cannot be read: Permission denied\."):
        fingerprints([tmp_path / "a"])
