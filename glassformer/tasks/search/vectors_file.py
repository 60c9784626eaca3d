"""Writes vectors one by one to a NumPy .npy file, which appears only when it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from glassformer.errors import ConfigError
from glassformer.storage.files import atomic_file


class VectorsFile:
    """A float32 matrix, [row, width], to which rows are added.

    The number of rows is known only at the end; the header of the file has room for any number.
    `path` is the final name of the file.
    """

    def __init__(self, file: IO[bytes], path: Path, width: int) -> None:
        self.file, self.path, self.width, self.rows = file, path, width, 0
        self.head()

    def head(self) -> None:
        shape = (self.rows, self.width)
        self.file.seek(0)
        header: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self.file, header)

    def add(self, vector: NDArray[Any]) -> None:
        assert vector.shape == (self.width,)
        self.file.write(vector.astype("<f4").tobytes())
        self.rows += 1


@contextmanager
def whole_matrix(path: Path, width: int) -> Iterator[VectorsFile]:
    """Opens a matrix to add rows to; it gets its file name when it is complete."""
    if path.suffix != ".npy":
        raise ConfigError(f"Vectors are written as .npy, not as {path.name}.")
    if path.exists() and not path.is_file():
        raise ConfigError(
            f"{path} is not a regular file and cannot be replaced; name another file."
        )
    with atomic_file(path, lambda: matrix.path) as file:
        matrix = VectorsFile(file, path, width)
        yield matrix
        matrix.head()
