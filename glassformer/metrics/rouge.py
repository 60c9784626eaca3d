"""ROUGE (Lin, 2004): how much of a reference a summary contains.

The scores are exactly those of the package rouge-score, which papers report. They are computed
here, because that package knows only words of the letters a to z; its stemmer is NLTK's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from glassformer.errors import UnsupportedError
from glassformer.metrics.registry import declare_metric

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
declare_metric("rouge1", "F1 of the words that a summary shares with a reference, in percent.")
declare_metric("rouge2", "F1 of the shared pairs of words, in percent.")
declare_metric("rougeL", "F1 of the longest common subsequence of words, in percent.")
declare_metric("rougeLsum", "The same, sentence by sentence, in percent.")
Words = Callable[[str], list[str]]
ASIA = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
WORD = re.compile(rf"[{ASIA}]|[^\W_{ASIA}]+")  # a character of a script without spaces, or a run


class Rouge(NamedTuple):
    precision: float
    recall: float
    f1: float


def rouge(prediction: str, reference: str, *, words: Words | None = None) -> dict[str, Rouge]:
    """Returns the scores by kind (`KINDS`).

    ROUGE-Lsum takes every line as a sentence. `words` splits a text into words; the default is
    `plain_words`.
    """
    read = words or plain_words
    said, right = read(prediction), read(reference)
    return {
        "rouge1": _shared(said, right, 1),
        "rouge2": _shared(said, right, 2),
        "rougeL": _made(len(_common(right, said)), len(said), len(right)),
        "rougeLsum": _by_sentences(
            *([read(s) for s in text.split("\n") if s] for text in (prediction, reference))
        ),
    }


def rouge_means(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    words: Words | None = None,
) -> dict[str, float]:
    """Returns the mean F1 by kind.

    If a text has several references, the best one counts, separately for each kind.
    """
    best = [
        [rouge(prediction, one, words=words) for one in several]
        for prediction, several in zip(predictions, references, strict=True)
    ]
    return {
        kind: sum(max(one[kind].f1 for one in several) for several in best) / max(len(best), 1)
        for kind in KINDS
    }


def plain_words(text: str) -> list[str]:
    """Splits as rouge-score does: runs of the letters a to z and digits are words."""
    return re.findall("[a-z0-9]+", text.lower())


def stemmed_words(text: str) -> list[str]:
    """Splits like `plain_words` and stems words of more than three letters (Porter)."""
    stem = porter_stemmer()
    return [stem(word) if len(word) > 3 else word for word in plain_words(text)]


@cache
def porter_stemmer() -> Callable[[str], str]:
    """Returns the stemmer of NLTK, which rouge-score uses; call it before long computations."""
    try:
        from nltk.stem.porter import PorterStemmer
    except ImportError:
        raise UnsupportedError(
            "ROUGE compares stems by nltk: pip install 'glassformer[tasks]', or compare words as "
            "they are (stemmer=False, --no-stemmer).",
            field="stemmer",
        ) from None
    return cache(PorterStemmer().stem)


def all_words(text: str) -> list[str]:
    """Splits text of any script into runs of letters and digits.

    Each Chinese, Japanese or Korean character is a word.
    """
    return WORD.findall(text.lower())


def _made(hits: int, said: int, right: int) -> Rouge:
    precision, recall = hits / max(said, 1), hits / max(right, 1)
    both = precision + recall
    return Rouge(precision, recall, 2 * precision * recall / both if both > 0 else 0.0)


def _shared(said: list[str], right: list[str], n: int) -> Rouge:
    grams = [
        Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
        for words in (said, right)
    ]
    return _made((grams[0] & grams[1]).total(), grams[0].total(), grams[1].total())


def _common(right: list[str], said: list[str]) -> list[int]:
    """Returns the indices in `right` of a longest common subsequence.

    If there are several, it is the one that rouge-score finds, on which ROUGE-Lsum depends.
    """
    lengths = [[0] * (len(said) + 1) for _ in range(len(right) + 1)]
    for i, word in enumerate(right):
        row, above = lengths[i + 1], lengths[i]
        for j, other in enumerate(said):
            if word == other:
                row[j + 1] = above[j] + 1
            else:
                row[j + 1] = above[j + 1] if above[j + 1] > row[j] else row[j]
    places: list[int] = []
    i, j = len(right), len(said)
    while i and j:
        if right[i - 1] == said[j - 1]:
            i, j = i - 1, j - 1
            places.append(i)
        elif lengths[i][j - 1] > lengths[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return places[::-1]


def _by_sentences(said: list[list[str]], right: list[list[str]]) -> Rouge:
    """ROUGE-Lsum: the union of the subsequences that each gold sentence shares with predicted ones.

    See Lin (2004), section 3.2. No word counts more often than it occurs on either side.
    """
    left = Counter(word for sentence in said for word in sentence)
    wanted = Counter(word for sentence in right for word in sentence)
    total = left.total(), wanted.total()
    hits = 0
    for sentence in right:
        places = {place for other in said for place in _common(sentence, other)}
        for word in (sentence[place] for place in sorted(places)):
            if left[word] > 0 and wanted[word] > 0:
                hits += 1
                left[word] -= 1
                wanted[word] -= 1
    return _made(hits, *total)
