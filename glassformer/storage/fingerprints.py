"""Fingerprints of files: hashes of their whole content.

Sizes and times do not tell whether a file is the same, because an edit may keep both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from glassformer.errors import LoadError

CHUNK = 2**24
"""Bytes of a chunk; chunks are hashed in parallel, and their hashes together."""

Progress = Callable[[int, int], None]
"""Called with the number of bytes hashed so far and the total."""


def fingerprints(paths: Iterable[Path], progress: Progress | None = None) -> dict[Path, str]:
    """Returns the fingerprint of each file; raises an error if one cannot be read."""
    sizes = {path: path.stat().st_size for path in paths}
    chunks = [(path, start) for path, size in sizes.items() for start in range(0, size, CHUNK)]
    whole = {path: sha256(str(size).encode()) for path, size in sizes.items()}
    done, total = 0, sum(sizes.values())
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for (path, start), digest in zip(chunks, pool.map(_digest, chunks), strict=True):
            whole[path].update(digest)
            done += min(CHUNK, sizes[path] - start)
            if progress is not None:
                progress(done, total)
    return {path: found.hexdigest() for path, found in whole.items()}


def _digest(chunk: tuple[Path, int]) -> bytes:
    path, start = chunk
    try:
        with path.open("rb") as stream:
            stream.seek(start)
            return sha256(stream.read(CHUNK)).digest()
    except OSError as error:
        raise LoadError(f"The file {path} cannot be read: {error.strerror}.") from None
