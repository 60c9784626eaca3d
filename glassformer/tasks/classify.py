"""Text classification (topics, sentiment, intent) of texts or pairs of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.spec import HeadSpec
from glassformer.tasks.batching import Pause, encoded, predict_batched
from glassformer.tasks.model_protocol import (
    TaskModel,
    apply_to,
    labels_of,
    require_head,
    settings_of,
)
from glassformer.tasks.packing import can_pack, head_logits
from glassformer.text import TextEncoding
from glassformer.text.backend import Text

Threshold = float | Mapping[str, float]
TooLong = Literal["truncate", "refuse"]
SEVERAL, SINGLE = "multi_label_classification", "single_label_classification"
REGRESSION = "regression"


@dataclass(frozen=True)
class Classification:
    """The labels of a text, the most probable first, and the probabilities of all labels.

    A single-label model gives one label, or none if it is below the threshold; a multi-label model
    gives any number.
    """

    labels: tuple[str, ...]
    probabilities: dict[str, float]  # of all labels, in the model's order
    cut: int = 0  # the number of tokens that truncation removed

    @property
    def label(self) -> str | None:
        return self.labels[0] if self.labels else None

    @property
    def probability(self) -> float:
        """The probability of the label, or of the most probable one if no label applies."""
        return max(self.probabilities[name] for name in self.labels or self.probabilities)

    def record(self) -> dict[str, Any]:
        """Returns a dict for JSON."""
        return {
            "label": self.label,
            "labels": list(self.labels),
            "probability": self.probability,
            "probabilities": self.probabilities,
            "cut": self.cut,
        }


def classify(model: TaskModel, texts: Any, **options: Any) -> Any:
    """Classifies a text, a pair (a tuple of two texts), or a list or iterator of them.

    `options` are those of `Classifier`.

    >>> model.classify("A moving film.").label
    """
    return apply_to(texts, Classifier(model, **options).stream, pairs=True)


class Classifier:
    """Classifies texts with a model's head for whole texts.

    Args:
        model: A model with a head for classification.
        threshold: The minimum probability of a label, for all labels or by name. If config.json
            does not set it, it is 0.5 for a multi-label model, and a single-label model has none.
        head: The name of the head, if the model has several.
        max_length: The maximum number of tokens of a text.
        too_long: Whether texts that are too long are truncated ("truncate"; at the end, unless the
            tokenizer sets the beginning) or are errors ("refuse").
    """

    def __init__(
        self,
        model: TaskModel,
        *,
        threshold: Threshold | None = None,
        head: str | None = None,
        max_length: int | None = None,
        too_long: TooLong = "truncate",
    ) -> None:
        if too_long not in ("truncate", "refuse"):
            raise ConfigError(f'too_long is "truncate" or "refuse", not {too_long!r}.')
        self.model = model
        self.head = require_head(model, "classify", "classify", head)
        self.labels = labels_of(model, self.head)
        self.several = has_several(model, self.head)
        saved = settings_of(model, self.head.name).get("threshold")
        self.thresholds = self._thresholds(saved if threshold is None else threshold)
        self._max_length, self._refuse = max_length, too_long == "refuse"

    def stream(self, texts: Iterable[Text | Pause]) -> Iterator[Classification | GlassformerError]:
        """Yields results in order; a text that cannot be read yields an error in its place."""
        read = encoded(self.model, texts, max_length=self._max_length, refuse=self._refuse)
        return predict_batched(self.model, read, self._forward, flat=can_pack(self.model.net))

    def _forward(
        self, inputs: dict[str, Tensor], texts: list[TextEncoding]
    ) -> list[Classification]:
        logits = head_logits(self.model.net, inputs, self.head.name).float()
        chances = logits.sigmoid() if self.several else logits.softmax(-1)  # [text, label]
        return [
            self.judged(row, text.cut) for row, text in zip(chances.tolist(), texts, strict=True)
        ]

    def judged(self, chances: Sequence[float], cut: int = 0) -> Classification:
        """Selects the labels whose probabilities reach their thresholds."""
        order = sorted(range(len(chances)), key=lambda i: -chances[i])
        candidates = order if self.several else order[:1]
        held = tuple(self.labels[i] for i in candidates if chances[i] >= self.thresholds[i])
        return Classification(held, dict(zip(self.labels, chances, strict=True)), cut)

    def _thresholds(self, given: Any) -> list[float]:
        usual = 0.5 if self.several else 0.0
        named = given if isinstance(given, Mapping) else {}
        strange = sorted(set(named) - set(self.labels))
        if strange:
            raise ConfigError(
                f"A threshold names the label {strange[0]!r}, which is none of the model's: "
                f"{', '.join(self.labels)}."
            )
        every = usual if given is None or isinstance(given, Mapping) else given
        found = [named.get(label, every) for label in self.labels]
        for value in found:
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ConfigError(f"A threshold is a number from 0 to 1, not {value!r}.")
        return found


def problem_type(model: TaskModel, head: HeadSpec) -> Any:
    """Returns the problem type of a head for whole texts, if its settings or config.json set it."""
    return settings_of(model, head.name).get("problem_type", model.config.get("problem_type"))


def has_several(model: TaskModel, head: HeadSpec) -> bool:
    """Whether each label of a head applies independently of the others.

    This includes heads with a single output, which answer yes or no.
    """
    kind = problem_type(model, head)
    if kind not in (None, SINGLE, SEVERAL):
        raise UnsupportedError(
            f"classify gives labels, and the head {head.name!r} of {model.architecture} does not "
            f"(problem_type is {kind!r} in config.json).",
            field="problem_type",
        )
    return kind == SEVERAL or head.num_outputs == 1
