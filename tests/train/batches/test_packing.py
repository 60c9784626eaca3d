"""Rows of examples: their content; no example is lost or repeated."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.errors import GlassformerError
from glassformer.train.batches.memmap_dataset import MemmapDataset, MemmapWriter, block_of
from glassformer.train.batches.packing import (
    PackedRows,
    SingleRows,
    StreamRows,
    VaryingRows,
    pack_rows,
)

LENGTHS = [7, 1, 0, 12, 3, 3, 9, 30, 2, 5]


def stored(folder, lengths, begins=None, fields=("tokens", "twice")):
    """Tokens count on through all examples, so that each can be told from all others."""
    kinds = dict.fromkeys(fields, np.uint32)
    ends = np.cumsum(lengths)
    examples = [
        {name: (1 + i) * np.arange(end - length, end) for i, name in enumerate(fields)}
        for length, end in zip(lengths, ends, strict=True)
    ]
    folder.mkdir()
    writer = MemmapWriter(folder, kinds)
    writer.add(block_of(examples, begins or [True] * len(lengths), [], kinds))
    writer.close({})
    return MemmapDataset(folder)


def row_of(rows, epoch, number):
    return rows.rows(np.array([epoch]), np.array([number]))[0]


def fixed(rows, number):
    return rows.fixed(np.array([number]))[0]


@pytest.fixture
def store(tmp_path):
    return stored(tmp_path / "store", LENGTHS)


def test_single(store):
    rows = SingleRows(store)
    assert rows.count == rows.all == len(LENGTHS) and rows.tokens == sum(LENGTHS)
    assert [len(row_of(rows, 4, i)["tokens"]) for i in range(rows.count)] == LENGTHS


class TestStream:
    @pytest.mark.parametrize("length", [1, 5, 8, 9, 36, 71])
    @pytest.mark.parametrize("beyond", [0, 1, 2])
    def test_every_token_at_most_once_an_epoch(self, store, length, beyond):
        total = sum(LENGTHS)  # 72
        rows = StreamRows(store, length, seed=1, beyond=beyond)
        missed = set()
        for epoch in range(6):
            found = [row_of(rows, epoch, i) for i in range(rows.count)]
            assert {len(row["tokens"]) for row in found} == {rows.length + beyond}
            own = np.concatenate([row["tokens"][: rows.length] for row in found])
            assert len(set(own.tolist())) == len(own) == rows.tokens
            assert total - len(own) < rows.length
            missed.add(frozenset(range(total)) - set(own.tolist()))
            for row in found:
                ring = (row["tokens"][0] + np.arange(rows.length + beyond)) % total
                assert row["tokens"].tolist() == ring.tolist()
                assert row["twice"].tolist() == (2 * ring).tolist()
        assert len(missed) > 1 or total % rows.length == 0 or rows.length + beyond >= total

    @pytest.mark.parametrize("length", [1, 5, 8, 71, 72, 500])
    @pytest.mark.parametrize("beyond", [0, 1])
    def test_an_evaluation_has_every_token_once_from_the_first(self, store, length, beyond):
        rows = StreamRows(store, length, seed=1, beyond=beyond)
        asked = [fixed(rows, i)["tokens"][beyond:] for i in range(rows.all)]
        assert np.concatenate(asked).tolist() == list(range(beyond, sum(LENGTHS)))

    def test_less_than_a_window(self, tmp_path):
        store = stored(tmp_path / "small", [3, 2])
        rows = StreamRows(store, 100, seed=1, beyond=1)
        assert rows.count == 1 and row_of(rows, 3, 0)["tokens"].tolist() == [0, 1, 2, 3, 4]
        with pytest.raises(GlassformerError, match="1 tokens in all"):
            StreamRows(stored(tmp_path / "smaller", [1]), 100, seed=1, beyond=1)

    def test_documents_are_numbered(self, tmp_path):
        begins = [True, True, True, False, True, True, False, False, True, True]
        store = stored(tmp_path / "store", LENGTHS, begins)
        of_token = np.repeat(np.cumsum(begins), LENGTHS)
        rows = StreamRows(store, 20, seed=1, beyond=1)
        for epoch in range(4):
            for i in range(rows.count):
                row = row_of(rows, epoch, i)
                tokens = row["tokens"].astype(int)
                # a new number where a document, or the ring, begins
                edges = (np.diff(of_token[tokens]) != 0) | (np.diff(tokens) < 0)
                assert row["documents"].tolist() == [0, *np.cumsum(edges)]
        assert "documents" not in row_of(StreamRows(store, 20, seed=1, across=True), 0, 0)
        whole = stored(tmp_path / "whole", [40, 40], [True, False])
        assert "documents" not in row_of(StreamRows(whole, 20, seed=1), 0, 0)

    def test_what_stands_before_comes_along(self, store):
        rows = StreamRows(store, 8, seed=1, beyond=1, before=10, across=True)
        for i in range(rows.all):
            before = fixed(rows, i)["before"]
            assert before.tolist() == list(range(max(0, 8 * i - 10), 8 * i))
        ring = sum(LENGTHS)
        for i in range(rows.count):
            row = row_of(rows, 1, i)
            first = int(row["tokens"][0])
            assert row["before"].tolist() == [t % ring for t in range(first - 10, first)]
        long = row_of(StreamRows(store, 8, seed=1, beyond=1, before=500, across=True), 1, 0)
        assert sorted([*long["before"], *long["tokens"]]) == list(range(ring))
        of_token = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
        apart = StreamRows(store, 8, seed=1, before=10)
        for i in range(apart.count):
            row = row_of(apart, 2, i)
            first = int(row["tokens"][0])
            expected = [
                t for t in range(max(0, first - 10), first) if of_token[t] == of_token[first]
            ]
            assert row["before"].tolist() == expected


class TestVarying:
    def test_windows_go_on_where_the_last_ended_and_rows_of_a_batch_are_alike(self, tmp_path):
        total, batch = 40_000, 4
        rows = VaryingRows(
            stored(tmp_path / "store", [total]), 70, seed=1, beyond=1, batch=batch, most=None
        )
        lengths = []
        for epoch in range(3):
            found = [row_of(rows, epoch, i)["tokens"].astype(int) for i in range(rows.count)]
            for stretch in range(batch):
                own = np.concatenate([row[:-1] for row in found[stretch::batch]])
                assert (np.diff(own) % total == 1).all()
                assert abs(len(own) - total // batch) < 300
            sizes = [len(row) - 1 for row in found]
            assert all(len(set(sizes[i : i + batch])) == 1 for i in range(0, rows.count, batch))
            lengths += sizes[::batch]
            starts = {int(row[0]) for row in found[:batch]}
            assert {(one - min(starts)) % 10_000 for one in starts} == {0}
        half = np.array(lengths) < 52
        assert 0.02 < half.mean() < 0.09  # one in twenty
        usual, shorter = np.array(lengths)[~half], np.array(lengths)[half]
        assert abs(usual.mean() - 69.5) < 1 and abs(usual.std() - 5) < 1
        assert abs(shorter.mean() - 34.5) < 3

    def test_an_evaluation_is_a_streams(self, store):
        plain = StreamRows(store, 8, seed=1, beyond=1)
        rows = VaryingRows(store, 8, seed=1, beyond=1, batch=2, most=None)
        assert rows.all == plain.all
        for i in range(rows.all):
            assert fixed(rows, i)["tokens"].tolist() == fixed(plain, i)["tokens"].tolist()

    def test_no_window_is_longer_than_the_model_reads(self, store):
        rows = VaryingRows(store, 8, seed=1, beyond=1, batch=2, most=8)
        sizes = [len(row_of(rows, epoch, i)["tokens"]) - 1 for epoch in range(9) for i in range(4)]
        assert max(sizes) == 8 and min(sizes) >= 5


class TestPack:
    def test_whole_examples_without_overlap(self, store):
        rows = PackedRows(store, 29, seed=1, beyond=1)
        seen = []
        for i in range(rows.count):
            row = row_of(rows, 0, i)
            assert len(row["tokens"]) == len(row["twice"]) == len(row["documents"]) <= 30
            for number in np.unique(row["documents"]):
                example = row["tokens"][row["documents"] == number].tolist()
                assert example == list(range(example[0], example[0] + len(example)))
                seen.append(len(example))
            assert (np.diff(row["documents"]) >= 0).all()
        assert sorted(seen) == sorted(length for length in LENGTHS if length)
        tokens = np.concatenate([row_of(rows, 0, i)["tokens"] for i in range(rows.count)])
        assert sorted(tokens.tolist()) == list(range(sum(LENGTHS)))
        assert rows.count == 3 and rows.tokens == sum(LENGTHS)
        again = PackedRows(store, 29, seed=1, beyond=1)
        assert row_of(again, 0, 1)["tokens"].tolist() == row_of(rows, 5, 1)["tokens"].tolist()

    def test_rows_are_nearly_full(self):
        lengths = np.random.default_rng(1).integers(1, 513, 4096)
        rows = pack_rows(lengths, 512)
        assert sorted(index for row in rows for index in row) == list(range(4096))
        sums = [lengths[row].sum() for row in rows]
        assert max(sums) <= 512 and sum(sums) / (512 * len(rows)) > 0.99

    def test_an_example_that_fits_no_row(self, store):
        with pytest.raises(GlassformerError, match=r"30 tokens does not fit rows of 20; .*length"):
            PackedRows(store, 20, seed=1)

    @pytest.mark.parametrize("beyond", [0, 1, 3])
    @pytest.mark.parametrize("length", [4, 10, 11, 29, 200])
    def test_examples_that_may_be_cut_come_in_windows(self, store, length, beyond):
        rows = PackedRows(store, length, seed=1, beyond=beyond, cut=True)
        asked = []
        for i in range(rows.count):
            row = row_of(rows, 0, i)
            assert len(row["tokens"]) <= length + beyond
            for number in np.unique(row["documents"]):
                tokens = row["tokens"][row["documents"] == number].tolist()
                assert tokens == list(range(tokens[0], tokens[0] + len(tokens)))
                asked += tokens[beyond:]
        ends = np.cumsum(LENGTHS)
        once = [
            t for n, end in zip(LENGTHS, ends, strict=True) for t in range(end - n, end)[beyond:]
        ]
        assert sorted(asked) == once
        assert rows.tokens == sum(LENGTHS)


@pytest.mark.parametrize("kind", [StreamRows, PackedRows])
def test_fields_must_be_parallel_to_be_joined(tmp_path, kind):
    kinds = {"source": np.uint16, "target": np.uint16}
    writer = MemmapWriter(tmp_path, kinds)
    writer.add(block_of([{"source": np.arange(3), "target": np.arange(4)}], [True], [], kinds))
    writer.close({})
    with pytest.raises(GlassformerError, match='choose "pad" or "bucket"'):
        kind(MemmapDataset(tmp_path), 20, seed=1)
