"""The sizes of pages as pyarrow's own metadata has them; a page that unpacks to too much."""

from __future__ import annotations

import pyarrow
import pyarrow.parquet as parquet
import pytest

from glassformer.data.data_config import DataSettings
from glassformer.data.files import TextFileReader
from glassformer.data.parquet_pages import page_sizes
from glassformer.data.tables import LARGEST_PAGE, read_parquet
from glassformer.errors import DataError

ROWS = {
    "text": [f"text {i}" for i in range(5000)],
    "label": [None if i % 3 == 0 else i % 7 for i in range(5000)],
    "many": [[i, i + 1] for i in range(5000)],
    "part": [{"a": i, "b": f"{i}"} for i in range(5000)],
    "share": [i / 7 for i in range(5000)],
    "right": [i % 2 == 0 for i in range(5000)],
}


def read(path):
    return list(read_parquet(TextFileReader([path]), path, DataSettings(train=(str(path),))))


@pytest.mark.parametrize("options", [
    {},
    {"compression": "zstd", "data_page_version": "2.0"},
    {"use_dictionary": False, "data_page_size": 500, "row_group_size": 1200},
    {"compression": "none", "write_page_index": True, "write_page_checksum": True},
])  # fmt: skip
def test_the_pages_are_all_of_a_column(options, tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table(ROWS), path, **options)
    metadata = parquet.read_metadata(path)
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    columns = [group.column(i) for group in groups for i in range(group.num_columns)]
    with path.open("rb") as stream:
        sizes = list(page_sizes(stream, metadata))
    assert len(sizes) >= len(columns)
    packed = sum(column.total_compressed_size for column in columns)
    assert 0 < packed - sum(size.compressed for size in sizes) < 200 * len(sizes)  # headers
    whole = sum(column.total_uncompressed_size for column in columns)
    assert 0 < whole - sum(size.uncompressed for size in sizes) < 200 * len(sizes)
    assert [row["text"] for row in read(path)] == ROWS["text"]


def test_a_page_that_unpacks_to_too_much_is_refused(tmp_path):
    path = tmp_path / "one.parquet"
    table = pyarrow.table({"text": ["a" * (LARGEST_PAGE + 1)]})
    parquet.write_table(table, path, use_dictionary=False, write_statistics=False)
    assert path.stat().st_size < 10**7 / 4
    with pytest.raises(DataError, match=r"one of its pages has \d\d,\d{3},\d{3} bytes, unpacked"):
        read(path)


@pytest.mark.parametrize("at", range(4, 40))
def test_a_damaged_header_is_one_sentence(at, tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"a": [1, 2, 3]}), path)
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)
    try:
        read(path)
    except DataError as error:
        assert "is not a whole Parquet file" in str(error)
