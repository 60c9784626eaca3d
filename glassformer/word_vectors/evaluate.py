"""Evaluation of word vectors by analogies and by human similarity judgments.

Both are computed as in gensim: case is ignored, and questions with an unknown word are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from glassformer.errors import DataError
from glassformer.word_vectors.space import Vectors

FREQUENT = 300_000  # only the first so many words are considered
TOGETHER = 256  # questions per batch

Floats64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Section:
    """Results of one section of an analogy file."""

    name: str
    right: int
    asked: int  # questions with known words only
    unknown: int = 0

    @property
    def accuracy(self) -> float:
        return self.right / self.asked if self.asked else 0.0


@dataclass(frozen=True)
class Likeness:
    """Correlation of the cosines of word pairs with human judgments."""

    spearman: float
    pearson: float
    pairs: int
    unknown: int


class KnownWords:
    """The most frequent words in uppercase; the most frequent of words that differ in case."""

    def __init__(self, vectors: Vectors, limit: int) -> None:
        upper = [word.upper() for word in vectors.words[:limit]]
        self.number: dict[str, int] = {}
        for place, word in enumerate(upper):
            self.number.setdefault(word, place)
        self.same = np.array([self.number[word] for word in upper])  # [word]
        self.unit = vectors.unit[:limit]

    def find(self, words: list[str]) -> list[int] | None:
        found = [self.number.get(word.upper(), -1) for word in words]
        return None if -1 in found else found


def analogies(vectors: Vectors, path: str | Path, limit: int = FREQUENT) -> list[Section]:
    """Evaluates analogies: a is to b as c is to d.

    The answer is the word nearest to b - a + c that is none of the three (3CosAdd).

    Args:
        vectors: The word vectors.
        path: File of lines "a b c d", with titles ": name" before the sections.
        limit: Number of most frequent words to consider.

    Returns:
        The sections, and the total as the last one.
    """
    known = KnownWords(vectors, limit)
    sections: dict[str, list[list[str]]] = {}
    name = "questions"
    for row, line in rows(Path(path)):
        if line.startswith(":"):
            name = line[1:].strip()
        elif len(line.split()) != 4:
            raise DataError(
                f"{path}:{row} has {len(line.split())} words; a question has 4.",
                path=path,
                line=row,
            )
        else:
            sections.setdefault(name, []).append(line.split())
    done = [section(known, name, questions) for name, questions in sections.items()]
    right, asked, unknown = (
        sum(getattr(one, part) for one in done) for part in ("right", "asked", "unknown")
    )
    return [*done, Section("total", right, asked, unknown)]


def section(known: KnownWords, name: str, questions: list[list[str]]) -> Section:
    found = [places for words in questions if (places := known.find(words)) is not None]
    right = 0
    for begin in range(0, len(found), TOGETHER):
        part = np.array(found[begin : begin + TOGETHER])  # [question, 4]
        a, b, c, wanted = part.T
        goal = known.unit[b] - known.unit[a] + known.unit[c]
        cosines = known.unit @ goal.T  # [word, question]; scaling `goal` does not matter
        for given in (a, b, c):
            cosines[known.same[:, None] == given] = -np.inf
        right += int((known.same[cosines.argmax(0)] == wanted).sum())
    return Section(name, right, len(found), len(questions) - len(found))


def similarities(vectors: Vectors, path: str | Path, limit: int = FREQUENT) -> Likeness:
    """Evaluates similarities against human judgments.

    Args:
        vectors: The vectors.
        path: A file of lines "a, tab, b, tab, judgment", such as WordSim-353.
        limit: Only this many of the most frequent words are known.

    Returns:
        The correlations with the judgments, and the number of pairs.
    """
    known = KnownWords(vectors, limit)
    ours, theirs, unknown = [], [], 0
    for row, line in rows(Path(path)):
        try:
            a, b, score = line.split("\t" if "\t" in line else None)
            value = float(score)
        except ValueError:
            raise DataError(
                f"{path}:{row} is not two words and a number.", path=path, line=row
            ) from None
        places = known.find([a.strip(), b.strip()])
        if places is None:
            unknown += 1
        else:
            ours.append(float(known.unit[places[0]] @ known.unit[places[1]]))
            theirs.append(value)
    if len(ours) < 2:
        raise DataError(
            f"Of the pairs in {path}, {len(ours)} have words that are known.", path=path
        )
    x, y = np.array(ours), np.array(theirs)
    return Likeness(correlation(ranks(x), ranks(y)), correlation(x, y), len(ours), unknown)


def rows(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines that are neither empty nor comments, with their numbers."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", path=path) from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8; convert the file first.", path=path) from None
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line


def ranks(values: Floats64) -> Floats64:
    """Returns ranks from the smallest on; equal values share the mean of their ranks."""
    _, which, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[which]


def correlation(x: Floats64, y: Floats64) -> float:
    return float(np.corrcoef(x, y)[0, 1]) if np.ptp(x) and np.ptp(y) else 0.0
