"""They come one by one and become numpy's .npy, wholly or not at
all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from numpy.lib import format as npy
from numpy.typing import NDArray

from glassformer.errors import GlassformerError
from glassformer.storage.files import atomic_file


class VectorsFile:
    """[row, width] in float32; how many rows there are is known at the end, and the head of the
    file, which says it, has room for any number. `path` is the name that it will have."""

    def __init__(self, file: IO[bytes], path: Path, width: int) -> None:
        self.file, self.path, self.width, self.rows = file, path, width, 0
        self.head()

    def head(self) -> None:
        shape = (self.rows, self.width)
        self.file.seek(0)
        said: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self.file, said)

    def add(self, vector: NDArray[Any]) -> None:
        assert vector.shape == (self.width,)
        self.file.write(vector.astype("<f4").tobytes())
        self.rows += 1


@contextmanager
def whole_matrix(path: Path, width: int) -> Iterator[VectorsFile]:
    """A matrix to add to, which takes the file's name when all is in it."""
    if path.suffix != ".npy":
        raise GlassformerError(f"Vectors are written as .npy, not as {path.name}.")
    if path.exists() and not path.is_file():
        raise GlassformerError(f"{path} is no regular file, which could be replaced; name another.")
    with atomic_file(path, lambda: matrix.path) as file:
        matrix = VectorsFile(file, path, width)
        yield matrix
        matrix.head()
