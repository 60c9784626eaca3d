"""The summary of a run's data: rows, labels and truncated texts of every split.

It is reported before the first step and stored in the run folder as data_summary.json.
"""

from __future__ import annotations

import json
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.train.batches.memmap_dataset import MemmapDataset
from glassformer.train.objectives.tally import Tally
from glassformer.train.run_records import SUMMARY, read_record

FILE = "data_summary.json"
MISSING = ("nan", "null", "n/a", "#n/a", "<na>")  # how tables write a value that is not there
MANY = 20  # rows from which labels that occur once are remarkable
NAMED = 3  # examples in a note


@dataclass(frozen=True, kw_only=True)
class SplitSummary:
    """The data of a split.

    Attributes:
        files: The paths of its files.
        skipped: Number of records that were left out because they are invalid.
        reasons: The first reasons for that, with file and line.
        documents: Number of documents; a long one is read in several records.
        examples: Number of examples that its records became.
        tally: Counts of rows, labels and truncated texts.
    """

    files: tuple[str, ...]
    skipped: int
    reasons: tuple[str, ...]
    documents: int
    examples: int
    tally: Tally

    @classmethod
    def of(cls, files: Sequence[Path], store: MemmapDataset) -> SplitSummary:
        return cls(
            files=tuple(map(str, files)),
            skipped=store.skipped,
            reasons=tuple(store.reasons),
            documents=store.documents,
            examples=len(store),
            tally=store.tally,
        )


@dataclass(frozen=True)
class DataSummary:
    """The data of a run.

    Attributes:
        splits: The splits that the run reads, by their names in the recipe.
    """

    splits: Mapping[str, SplitSummary]

    def labels(self) -> dict[str, dict[str, int]]:
        """Returns the counts of the training labels; with several heads, "head: label"."""
        heads = {head for split in self.splits.values() for head in split.tally.labels}
        found: dict[str, dict[str, int]] = {}
        for name, split in self.splits.items():
            for head, counts in split.tally.labels.items():
                for label, count in counts.most_common():
                    shown = label if len(heads) == 1 else f"{head}: {label}"
                    found.setdefault(shown, dict.fromkeys(self.splits, 0))[name] = count
        return found

    def notes(self) -> list[str]:
        """Returns sentences on what may be wrong with the data."""
        return [note for name, split in self.splits.items() for note in _notes(name, split)] + [
            *self._unlike_labels(),
            *self._known_speakers(),
        ]

    def _known_speakers(self) -> Iterator[str]:
        """Yields notes on held-out speakers that are also trained on."""
        if "train" not in self.splits:
            return
        for name, split in self.splits.items():
            speakers = split.tally.speakers.keys()
            known = speakers & self.splits["train"].tally.speakers.keys()
            if name != "train" and known:
                yield (
                    f"{len(known):,} of the {len(speakers):,} speakers of data.{name} are also in "
                    "data.train; errors on new speakers may be higher."
                )

    def _unlike_labels(self) -> Iterator[str]:
        """Yields notes on labels that only held-out records or only training records have."""
        if "train" not in self.splits:
            return
        for name, split in self.splits.items():
            for head, counts in split.tally.labels.items():
                unknown = sorted(counts.keys() - self.splits["train"].tally.labels.get(head, {}))
                if unknown:
                    does = "occurs" if len(unknown) == 1 else "occur"
                    yield f"{_listed(unknown)} of data.{name} {does} in no training record."

    def to_json(self) -> str:
        """Returns the summary as JSON."""
        splits = {
            name: {
                "files": split.files,
                "rows": split.tally.rows,
                "documents": split.documents,
                "examples": split.examples,
                "skipped": split.skipped,
                "reasons": split.reasons,
                "tally": split.tally.to_dict(),
            }
            for name, split in self.splits.items()
        }
        return json.dumps({"splits": splits, "notes": self.notes()}, indent=2) + "\n"

    @classmethod
    def read(cls, path: Path) -> DataSummary:
        """Reads the file that a run has written."""
        content = read_record(path, SUMMARY)
        return cls(
            {
                name: SplitSummary(
                    files=tuple(split["files"]),
                    skipped=split["skipped"],
                    reasons=tuple(split["reasons"]),
                    documents=split["documents"],
                    examples=split["examples"],
                    tally=Tally.read(split["tally"]),
                )
                for name, split in content["splits"].items()
            }
        )


def _notes(name: str, split: SplitSummary) -> Iterator[str]:
    tally = split.tally
    if split.skipped:
        yield (
            f"{_were(split.skipped, 'record')} left out of data.{name}; the first: "
            f"{split.reasons[0]}"
        )
    if tally.too_long:
        yield (
            f"{_were(tally.too_long, 'record')} left out of data.{name}, because the sound is "
            "longer than the model hears at once (or objective.max_duration)."
        )
    if tally.unused > tally.too_long:
        short = tally.unused - tally.too_long
        yield f"{_were(short, 'record')} too short to give an example of data.{name}."
    if tally.respelled:
        yield (
            f"{_were(tally.respelled, 'label')} read in data.{name} without surrounding space, or "
            "in composed Unicode form."
        )
    for counts in tally.labels.values():
        for similar in nearly_equal(counts):
            numbers = ", ".join(f"{label!r} ({counts[label]:,})" for label in similar)
            yield f"These labels of data.{name} are nearly equal: {numbers}."
        empty = [label for label in counts if label.casefold() in MISSING]
        if empty:
            yield f"{_listed(empty)} of data.{name} may stand for a missing label."
        single = [label for label, count in counts.items() if count == 1]
        if name == "train" and len(single) > MANY and len(single) > len(counts) / 2:
            yield (
                f"{len(single):,} of {len(counts):,} labels of data.{name} occur once; is that the "
                "column of the label ([data.columns])?"
            )


def nearly_equal(labels: Mapping[str, int]) -> list[list[str]]:
    """Returns groups of labels that differ in space, case, Unicode form or notation of a number."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for label in labels:
        groups[_normalized(label)].append(label)
    return [
        sorted(group, key=lambda label: -labels[label]) for group in groups.values() if group[1:]
    ]


def _normalized(label: str) -> str:
    plain = unicodedata.normalize("NFKC", label).casefold()
    plain = "".join(c for c in plain if not c.isspace() and unicodedata.category(c) != "Cf")
    try:
        return f"{float(plain):g}"
    except ValueError:
        return plain


def _were(count: int, noun: str) -> str:
    return f"1 {noun} was" if count == 1 else f"{count:,} {noun}s were"


def _listed(labels: Sequence[str]) -> str:
    more = len(labels) - NAMED
    named = ", ".join(map(repr, labels[:NAMED])) + (f" and {more:,} more" if more > 0 else "")
    return f"The label {named}" if len(labels) == 1 else f"The labels {named}"
