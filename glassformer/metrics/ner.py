"""Entities in sequences of tags, and their precision, recall and F1.

It is written here, because seqeval is no longer maintained and gives no counts of single records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

from glassformer.errors import DataError, InputError
from glassformer.metrics.report_table import ScoreTable

Entity = tuple[str, int, int]  # type, first word, last word
Scheme = Literal["IOB2", "IOBES"]
MARKS = dict(zip("BIESMLU", "BIESIES", strict=True))  # prefixes; BMES and BILOU map to IOBES
ALLOWED = {"IOB2": "OBI", "IOBES": "OBIES"}


@dataclass(frozen=True)
class NerReport:
    """Scores of predicted tags.

    `entities` counts whole entities, which are correct if type and words agree; None if the tags do
    not name entities, such as parts of speech. `tokens` counts words by type, without those outside
    of all entities. `tags` counts words by tag as it is written (B-PER, I-PER, O), and `accuracy`
    is the share of words with the right tag. As most words are O, it is higher than the F1 of
    entities.
    """

    entities: ScoreTable | None
    tokens: ScoreTable
    tags: ScoreTable
    accuracy: float

    def record(self) -> dict[str, Any]:
        return {
            "entities": None if self.entities is None else self.entities.record(),
            "tokens": self.tokens.record(),
            "tags": self.tags.record(),
            "accuracy": self.accuracy,
        }


def report(
    predicted: Iterable[Sequence[str]],
    gold: Iterable[Sequence[str]],
    scheme: Scheme | None = None,
) -> NerReport:
    """Compares predicted tags with gold tags.

    Args:
        predicted: A list of tags per text.
        gold: The correct tags, of the same lengths.
        scheme: The tagging scheme. With one, tags that violate it are no entity, as in seqeval's
            strict mode; without one, tags are read leniently, as in conlleval and seqeval's
            default.
    """
    pairs = [(list(p), list(g)) for p, g in zip(predicted, gold, strict=True)]
    for number, (p, g) in enumerate(pairs):
        if len(p) != len(g):
            raise InputError(f"Text {number} has {len(p)} predicted tags and {len(g)} gold tags.")
    names = {tag for pair in pairs for tag in chain(*pair)}
    return NerReport(
        entities=_of_entities(pairs, scheme) if names_entities(names) else None,
        tokens=_of_tokens(pairs, type_of if names_entities(names) else as_written),
        tags=(tags := _of_tokens(pairs, as_written)),
        accuracy=tags.micro.f1,
    )


def names_entities(tags: Iterable[str]) -> bool:
    """Whether the tags describe entities: they have prefixes, or O for words outside."""
    return any(tag == "O" or (tag[:1] in MARKS and tag[1:2] == "-") for tag in tags)


def entities(tags: Sequence[str], scheme: Scheme | None = None) -> set[Entity]:
    """Returns the entities that tags describe.

    With a scheme, tags are read strictly. Without one, IOB1, IOB2, IOE, IOBES and types without a
    prefix are all read as leniently as conlleval does: an entity ends where the type changes.
    """
    return {*(_lenient(tags) if scheme is None else _strict(tags, scheme))}


def entity_scores(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Returns precision, recall and F1 of whole entities over all texts, as in seqeval."""
    row = _of_entities([*zip(predicted, gold, strict=True)], None).micro
    return {"precision": row.precision, "recall": row.recall, "f1": row.f1}


def type_of(tag: str) -> str:
    """Returns the type of a tag, or "" for a word outside of all entities."""
    return split(tag)[1]


def as_written(tag: str) -> str:
    """Returns the tag itself."""
    return tag


@lru_cache  # the same few tags recur, and all share one string per type
def split(tag: str) -> tuple[str, str]:
    """Splits a tag into prefix and type; a type without a prefix counts as I (inside)."""
    if tag == "O":
        return "O", ""
    if tag[:1] in MARKS and tag[1:2] in ("", "-"):
        return MARKS[tag[0]], tag[2:] or "_"
    return "I", tag


def _lenient(tags: Sequence[str]) -> Iterator[Entity]:
    start, open_type = 0, ""
    mark_before, kind_before = "O", ""
    for place, tag in enumerate([*tags, "O"]):
        mark, kind = split(tag)
        apart = mark_before in "ESO" or mark in "BSO" or kind != kind_before
        if open_type and apart:
            yield open_type, start, place - 1
            open_type = ""
        if mark != "O" and apart:
            start, open_type = place, kind
        mark_before, kind_before = mark, kind


def _strict(tags: Sequence[str], scheme: Scheme) -> Iterator[Entity]:
    """IOB2: B, I, I. IOBES: B, I, E or S. All of one type; other tags are ignored."""
    closed = scheme == "IOBES"  # an entity of several words must end with E
    place = 0
    pairs = [*(_allowed(tag, scheme) for tag in tags), ("O", "")]
    while place < len(tags):
        start, (mark, kind) = place, pairs[place]
        place += 1
        if mark not in "BS":
            continue
        while mark in "BI" and pairs[place][0] in "IE" and pairs[place][1] == kind:
            mark = pairs[place][0]
            place += 1
        if not closed or mark in "SE":
            yield kind, start, place - 1


def _allowed(tag: str, scheme: Scheme) -> tuple[str, str]:
    mark, kind = split(tag)
    marked = tag == "O" or tag[1:2] in ("", "-")
    if not marked or mark not in ALLOWED[scheme]:
        raise DataError(
            f"The tag {tag!r} is none of {scheme}, whose marks are {', '.join(ALLOWED[scheme])}; "
            "leave the scheme out to read tags leniently."
        )
    return mark, kind


def _of_entities(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]], scheme: Scheme | None
) -> ScoreTable:
    hits, found, right = Counter[str](), Counter[str](), Counter[str]()
    for p, g in pairs:
        said, true = entities(p, scheme), entities(g, scheme)
        for counter, spans in ((hits, said & true), (found, said), (right, true)):
            counter.update(kind for kind, _, _ in spans)
    return ScoreTable.of(hits, found, right)


def _of_tokens(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]], kind: Callable[[str], str]
) -> ScoreTable:
    hits, found, right = Counter[str](), Counter[str](), Counter[str]()
    for p, g in pairs:
        for said, true in zip(p, g, strict=True):
            a, b = kind(said), kind(true)
            found.update([a] if a else [])
            right.update([b] if b else [])
            hits.update([a] if a and a == b else [])
    return ScoreTable.of(hits, found, right)
