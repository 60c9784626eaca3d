"""Vocabulary and word indices of text files."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.data.files import likely_encoding
from glassformer.errors import DataError, LoadError
from glassformer.text.segmenter import make_segmenter

LONGEST = 10_000  # words per sentence; a longer line is split

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Watch = Callable[[int], None]  # called with the amount of work done


@dataclass(frozen=True)
class Corpus:
    """Vocabulary from the most frequent word on, and the text as indices without rare words."""

    words: list[str]
    counts: npt.NDArray[np.int64]
    ids: Ids  # memory-mapped temporary file, so that it may be larger than memory
    bounds: npt.NDArray[np.int64]  # sentence i is ids[bounds[i] : bounds[i + 1]]

    def keep(self, sample: float) -> Floats:
        """Returns the probability of keeping an occurrence of each word (word2vec subsampling)."""
        if not sample:
            return np.ones(len(self.words), np.float32)
        share = self.counts / (sample * self.counts.sum())
        chance: Floats = ((np.sqrt(share) + 1) / share).astype(np.float32)
        return chance

    def chunks(self, size: int) -> list[tuple[int, int]]:
        """Splits the text into ranges of whole sentences with about `size` words each."""
        steps = np.arange(0, len(self.ids), size)
        cuts = np.unique([*np.searchsorted(self.bounds, steps), len(self.bounds) - 1])
        return [(int(a), int(b)) for a, b in pairwise(cuts)]


def read_corpus(
    files: Sequence[Path],
    *,
    min_count: int = 5,
    lowercase: bool = False,
    encoding: str = "utf-8",
    segmenter: str | None = None,
    watch: Watch = lambda _: None,
) -> Corpus:
    """Reads text files: words are separated by whitespace, sentences are lines.

    Args:
        files: Text files; they are read twice.
        min_count: Minimum number of occurrences of a word.
        lowercase: Whether to convert the text to lowercase.
        encoding: The encoding of the files.
        segmenter: "jieba" separates the words of Chinese text; see `text.segmenter`.
        watch: Called with the number of bytes read so far, over both passes.

    Returns:
        The corpus.
    """
    counter: Counter[str] = Counter()
    words_of = str.split if segmenter is None else make_segmenter(segmenter).words
    read = partial(sentences, files, lowercase, encoding, words_of)
    for sentence in read(watch):
        counter.update(sentence)
    if not counter:
        raise DataError(f"There are no words in {names(files)}.")
    # equally frequent words are sorted alphabetically, so that the order is deterministic
    kept = sorted((-count, word) for word, count in counter.items() if count >= min_count)
    if len(kept) < 2:
        raise DataError(
            f"Of {len(counter):,} words in {names(files)}, {len(kept)} occur {min_count} times or "
            "more; lower min_count, or give more text."
        )
    words = [word for _, word in kept]
    number = {word: place for place, word in enumerate(words)}
    done = sum(path.stat().st_size for path in files)
    bounds = [0]
    try:
        with tempfile.TemporaryFile() as file:
            for sentence in read(lambda size: watch(done + size)):
                ids = [place for word in sentence if (place := number.get(word)) is not None]
                for begin in range(0, len(ids), LONGEST):
                    part = np.array(ids[begin : begin + LONGEST], np.int32)
                    file.write(part.data)
                    bounds.append(bounds[-1] + len(part))
            file.flush()
            whole: Any = np.memmap(file, np.int32, "r")  # keeps the unnamed file open
    except OSError as error:
        raise LoadError(
            f"The temporary folder {tempfile.gettempdir()} cannot be written: {error.strerror}; "
            "name another with TMPDIR."
        ) from None
    return Corpus(words, -np.array([count for count, _ in kept]), whole, np.array(bounds))


def sentences(
    files: Sequence[Path],
    lower: bool,
    encoding: str,
    words_of: Callable[[str], list[str]],
    watch: Watch,
) -> Iterator[list[str]]:
    """Yields the words of each line; `watch` is called with the number of bytes read."""
    read = 0
    for path in files:
        try:
            with path.open("rb") as lines:
                for row, line in enumerate(lines, 1):
                    read += len(line)
                    if row % 1000 == 0:
                        watch(read)
                    text = line.decode(encoding)
                    yield words_of(text.lower() if lower else text)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}.", path=path) from None
        except UnicodeDecodeError:
            likely = likely_encoding(line)
            raise DataError(
                f"{path}:{row} is not {encoding.upper()}, but may be {likely} "
                f"(--encoding {likely}).",
                path=path,
                line=row,
            ) from None
    watch(read)


def names(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))
