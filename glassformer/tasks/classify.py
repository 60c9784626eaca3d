"""Topics, sentiment, intent. Texts or pairs come in, labels go out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from glassformer.errors import GlassformerError
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
    """`labels` are those that hold, the most probable first: of a model for one label that one,
    unless it is below a threshold; of a model for several any number."""

    labels: tuple[str, ...]
    probabilities: dict[str, float]  # of all labels, in the model's order
    cut: int = 0  # so many tokens of the text were too many, and not read

    @property
    def label(self) -> str | None:
        return self.labels[0] if self.labels else None

    @property
    def probability(self) -> float:
        """Of the label, or where none holds of the most probable."""
        return max(self.probabilities[name] for name in self.labels or self.probabilities)

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "label": self.label,
            "labels": list(self.labels),
            "probability": self.probability,
            "probabilities": self.probabilities,
            "cut": self.cut,
        }


def classify(model: TaskModel, texts: Any, **options: Any) -> Any:
    """A text, or a tuple of two that are a pair, a list, or an iterator of them; see `Classifier`.

    >>> model.classify("A moving film.").label
    """
    return apply_to(texts, Classifier(model, **options).stream, pairs=True)


class Classifier:
    """What a model's head for whole texts says of them.

    `threshold`: from which probability on a label holds, for all or by their names; of a model for
    several labels 0.5, of one for one label none, if config.json does not say otherwise. `head`:
    its name, where the model has several. `max_length`: in tokens; `too_long` texts lose their end
    ("truncate"; the tokenizer may say the beginning) or are an error ("refuse").
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
            raise GlassformerError(f'too_long is "truncate" or "refuse", not {too_long!r}.')
        self.model = model
        self.head = require_head(model, "classify", "classify", head)
        self.labels = labels_of(model, self.head)
        self.several = has_several(model, self.head)
        saved = settings_of(model, self.head.name).get("threshold")
        self.thresholds = self._thresholds(saved if threshold is None else threshold)
        self._max_length, self._refuse = max_length, too_long == "refuse"

    def stream(self, texts: Iterable[Text | Pause]) -> Iterator[Classification | GlassformerError]:
        """Results as they come; a text that cannot be read gives an error in its place."""
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
        """Which labels hold."""
        order = sorted(range(len(chances)), key=lambda i: -chances[i])
        candidates = order if self.several else order[:1]
        held = tuple(self.labels[i] for i in candidates if chances[i] >= self.thresholds[i])
        return Classification(held, dict(zip(self.labels, chances, strict=True)), cut)

    def _thresholds(self, given: Any) -> list[float]:
        usual = 0.5 if self.several else 0.0
        named = given if isinstance(given, Mapping) else {}
        strange = sorted(set(named) - set(self.labels))
        if strange:
            raise GlassformerError(
                f"A threshold names the label {strange[0]!r}, which is none of the model's: "
                f"{', '.join(self.labels)}."
            )
        every = usual if given is None or isinstance(given, Mapping) else given
        found = [named.get(label, every) for label in self.labels]
        for value in found:
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise GlassformerError(f"A threshold is a number from 0 to 1, not {value!r}.")
        return found


def problem_type(model: TaskModel, head: HeadSpec) -> Any:
    """What a head for whole texts was trained to say, where its settings or config.json tell."""
    return settings_of(model, head.name).get("problem_type", model.config.get("problem_type"))


def has_several(model: TaskModel, head: HeadSpec) -> bool:
    """Whether each label of a head holds or not by itself. One that has a single output says yes
    or no, too."""
    kind = problem_type(model, head)
    if kind not in (None, SINGLE, SEVERAL):
        raise GlassformerError(
            f"classify gives labels, and the head {head.name!r} of {model.architecture} does not "
            f"(problem_type is {kind!r} in config.json)."
        )
    return kind == SEVERAL or head.outputs == 1
