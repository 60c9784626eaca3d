"""Counts of labels and truncated texts, made while records are converted to examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass
class Tally:
    """Counts over the records of a split.

    Attributes:
        rows: Records that were used.
        unused: Those of them that gave no example, such as a document of one sentence for an
            objective on pairs of sentences.
        texts: Texts that are read up to a maximum length.
        tokens: Their tokens before truncation.
        truncated: Texts that were truncated.
        cut_tokens: Tokens that truncation removed.
        longest: Number of tokens of the longest text, before truncation.
        respelled: Labels that were read without the space around them, or in composed Unicode form.
        labels: For each head, how often every label occurs.
        seconds: The length of all sounds together.
        too_long: Sounds that were left out because they are too long.
        speakers: How many sounds there are of every speaker that the records name.
    """

    rows: int = 0
    unused: int = 0
    texts: int = 0
    tokens: int = 0
    truncated: int = 0
    cut_tokens: int = 0
    longest: int = 0
    respelled: int = 0
    labels: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: float = 0.0
    too_long: int = 0
    speakers: Counter[str] = field(default_factory=Counter)

    def count_text(self, kept: int, cut: int) -> None:
        """Counts a text of which so many tokens are read and so many were removed."""
        self.texts += 1
        self.tokens += kept + cut
        self.longest = max(self.longest, kept + cut)
        self.truncated += cut > 0
        self.cut_tokens += cut

    def count_label(self, head: str, label: str) -> None:
        self.labels.setdefault(head, Counter())[label] += 1

    def count_sound(self, seconds: float, speaker: Any = None) -> None:
        """Counts a sound of this length; the speaker may be unknown."""
        self.seconds += seconds
        if speaker not in (None, ""):
            self.speakers[str(speaker)] += 1

    def add(self, other: Tally) -> None:
        """Adds the counts of other records."""
        self.rows += other.rows
        self.unused += other.unused
        self.texts += other.texts
        self.tokens += other.tokens
        self.truncated += other.truncated
        self.cut_tokens += other.cut_tokens
        self.longest = max(self.longest, other.longest)
        self.respelled += other.respelled
        for head, counts in other.labels.items():
            self.labels.setdefault(head, Counter()).update(counts)
        self.seconds += other.seconds
        self.too_long += other.too_long
        self.speakers.update(other.speakers)

    def reset(self) -> None:
        self.__init__()  # type: ignore[misc]  # objects that count hold a reference to it

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts as JSON values, the most frequent labels first."""
        labels = {head: dict(counts.most_common()) for head, counts in self.labels.items()}
        return {**asdict(self), "labels": labels, "speakers": dict(self.speakers.most_common())}

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Returns the counts that `to_dict` has stored."""
        labels = {head: Counter(counts) for head, counts in values["labels"].items()}
        speakers = Counter(values.get("speakers", {}))
        return cls(**{**values, "labels": labels, "speakers": speakers})
