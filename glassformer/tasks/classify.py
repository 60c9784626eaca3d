"""Text classification (topics, sentiment, intent) of texts or pairs of texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Unpack, overload

from torch import Tensor

from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.spec import HeadSpec
from glassformer.tasks.batching import OnError, apply_to, encode_texts, map_batched, predict_batched
from glassformer.tasks.heads import require_head
from glassformer.tasks.model_protocol import TaskModel, longest, require_tokenizer
from glassformer.tasks.packing import can_pack, head_logits
from glassformer.tasks.registry import TrainingData, task
from glassformer.tasks.task_cache import cached_task
from glassformer.tasks.task_settings import labels_of, settings_of
from glassformer.text import TextEncoding
from glassformer.text.backend import Text
from glassformer.text.unknown import warned

Threshold = float | Mapping[str, float]
TooLong = Literal["truncate", "refuse"]
SEVERAL, SINGLE = "multi_label_classification", "single_label_classification"
REGRESSION = "regression"


@dataclass(frozen=True)
class Classification:
    """The labels of a text, the most probable first, and the probabilities of all labels.

    A single-label model gives one label, or none if it is below the threshold; a multi-label model
    gives any number; a model that predicts a number gives that. A list of them makes a DataFrame:
    `pd.DataFrame(model.classify(texts))`.

    Attributes:
        label: The most probable label that applies; None if there is none.
        probability: Its probability, or that of the most probable one if no label applies; NaN for
            a number.
        labels: All labels that apply.
        probabilities: Those of all labels, in the model's order.
        cut: The number of tokens that truncation removed.
        value: The predicted number of a regression.
        unknown_ratio: The fraction of the text that is not in the vocabulary.
    """

    label: str | None = field(init=False)
    probability: float = field(init=False)
    labels: tuple[str, ...]
    probabilities: dict[str, float]
    cut: int = 0
    value: float | None = None
    unknown_ratio: float = 0.0

    def __post_init__(self) -> None:
        given = [self.probabilities[name] for name in self.labels or self.probabilities]
        object.__setattr__(self, "label", self.labels[0] if self.labels else None)
        object.__setattr__(self, "probability", max(given, default=math.nan))

    def record(self) -> dict[str, Any]:
        """Returns a dict for JSON."""
        if self.value is not None:
            return {"value": self.value, "cut": self.cut}
        return {
            "label": self.label,
            "labels": list(self.labels),
            "probability": self.probability,
            "probabilities": self.probabilities,
            "cut": self.cut,
            "unknown_ratio": self.unknown_ratio,
        }


class ClassifierOptions(TypedDict, total=False):
    """The keyword arguments of `Classifier`."""

    threshold: Threshold | None
    head: str | None
    max_length: int | None
    too_long: TooLong


class ClassifyOptions(ClassifierOptions, total=False):
    """The keyword arguments of `classify`."""

    on_error: OnError


@overload
def classify(model: TaskModel, texts: Text, **options: Unpack[ClassifyOptions]) -> Classification:  # type: ignore[overload-overlap]
    ...


@overload
def classify(
    model: TaskModel, texts: Sequence[Text], **options: Unpack[ClassifyOptions]
) -> list[Classification]: ...


@overload
def classify(
    model: TaskModel, texts: Iterator[Text], **options: Unpack[ClassifyOptions]
) -> Iterator[Classification]: ...


def classify(
    model: TaskModel,
    texts: Text | Sequence[Text] | Iterator[Text],
    *,
    threshold: Threshold | None = None,
    head: str | None = None,
    max_length: int | None = None,
    too_long: TooLong = "truncate",
    on_error: OnError = "stop",
) -> Classification | list[Classification] | Iterator[Classification]:
    """Classifies texts or pairs of texts.

    Args:
        model: A model with a head for classification.
        texts: A text, a pair (a tuple of two texts), or a list or iterator of them.
        threshold: The minimum probability of a label, for all labels or by name.
        head: The name of the head, if the model has several.
        max_length: The maximum number of tokens of a text.
        too_long: Whether texts that are too long are truncated ("truncate") or raise an error
            ("refuse").
        on_error: "stop" at a text that cannot be read, or "skip" it; the list of results has the
            indices and the reasons as `skipped`.

    Returns:
        A `Classification`, a list for a list, an iterator for an iterator.

    >>> model.classify("A moving film.").label
    """
    classifier = cached_task(
        model,
        Classifier,
        threshold=threshold,
        head=head,
        max_length=max_length,
        too_long=too_long,
    )
    results: Classification | list[Classification] | Iterator[Classification]
    results = apply_to(model, texts, classifier, pairs=True, on_error=on_error)
    return results


@task(
    "classify",
    head="classify",
    objective="classification",
    training=TrainingData(
        columns={
            "text": (
                *("sentence", "review", "question", "content", "message", "comment", "tweet"),
                *("query", "utterance", "body", "document", "input", "title", "headline"),
                *("sentence1", "text1", "premise", "question1"),
            ),
            "label": (
                *("labels", "category", "class", "target", "intent", "sentiment", "topic"),
                *("stars", "rating", "score", "value", "output", "gold_label"),
            ),
        },
        optional={"pair": ("sentence2", "text2", "hypothesis", "question2")},
        metric="accuracy",
        evaluation="classification",
    ),
)
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
        self.model, self.tokenizer = model, require_tokenizer(model)
        self.head = require_head(model, "classify", "classify", head)
        self.labels = labels_of(model, self.head)
        self.number = is_regression(model, self.head)
        self.several = not self.number and has_several(model, self.head)
        saved = settings_of(model, self.head.name).get("threshold")
        self.thresholds = self._thresholds(saved if threshold is None else threshold)
        self._max_length, self._refuse = longest(model, max_length), too_long == "refuse"

    def __call__(self, texts: Iterable[Text]) -> Iterator[Classification | GlassformerError]:
        """Yields results in order; a text that cannot be read yields an error in its place."""
        return map_batched(texts, self._predict)

    def _predict(self, texts: list[Text]) -> list[Classification | GlassformerError]:
        encodings = encode_texts(self.tokenizer, texts, self._max_length, refuse=self._refuse)
        packed = can_pack(self.model)
        return predict_batched(self.model, encodings, self._forward, packed=packed)

    def _forward(
        self, inputs: dict[str, Tensor], texts: list[TextEncoding]
    ) -> list[Classification]:
        logits = head_logits(self.model, inputs, self.head.name).float()
        unknown = [warned(self.tokenizer.unknown_ratio(text)) for text in texts]
        if self.number:
            return [
                Classification((), {}, text.cut, value=value, unknown_ratio=ratio)
                for value, text, ratio in zip(logits[:, 0].tolist(), texts, unknown, strict=True)
            ]
        probabilities = logits.sigmoid() if self.several else logits.softmax(-1)  # [text, label]
        return [
            self.select_labels(row, text.cut, ratio)
            for row, text, ratio in zip(probabilities.tolist(), texts, unknown, strict=True)
        ]

    def select_labels(
        self, probabilities: Sequence[float], cut: int = 0, unknown_ratio: float = 0.0
    ) -> Classification:
        """Selects the labels whose probabilities reach their thresholds."""
        order = sorted(range(len(probabilities)), key=lambda i: -probabilities[i])
        candidates = order if self.several else order[:1]
        labels = tuple(self.labels[i] for i in candidates if probabilities[i] >= self.thresholds[i])
        shares = dict(zip(self.labels, probabilities, strict=True))
        return Classification(labels, shares, cut, unknown_ratio=unknown_ratio)

    def _thresholds(self, given: Any) -> list[float]:
        usual = 0.5 if self.several else 0.0
        named = given if isinstance(given, Mapping) else {}
        unknown = sorted(set(named) - set(self.labels))
        if unknown:
            raise ConfigError(
                f"A threshold names the label {unknown[0]!r}, which the model does not have; its "
                f"labels are {', '.join(self.labels)}."
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


def is_regression(model: TaskModel, head: HeadSpec) -> bool:
    """Whether a head predicts one number."""
    return bool(problem_type(model, head) == REGRESSION and head.num_outputs == 1)


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
