"""Evaluation of vectors: how often the nearest of all texts is the one that belongs to a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import tee
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.data.record import Record
from glassformer.errors import DataError, GlassformerError
from glassformer.evaluate.evaluator import Evaluator, field
from glassformer.metrics.bootstrap import MetricWithCI, Resamples, bootstrap_means
from glassformer.model import Model
from glassformer.tasks.embed import Embedder
from glassformer.train.objectives.contrastive import ranks_of

Vectors = tuple[NDArray[Any], NDArray[Any]]  # of a text and of its positive


class TextPair(NamedTuple):
    """A text, and one with a similar meaning."""

    text: str
    positive: str


class EmbeddingEvaluator(Evaluator[TextPair, Vectors]):
    """Evaluates vectors of texts, compared by cosine, with the model's own pooling.

    Columns: `text` and `positive`. The candidates for a text are the positives of all records.
    """

    form = "tsv"

    def __init__(self, model: Model) -> None:
        self.embedder = Embedder.of(model, normalize=True)

    def ask(self, record: Record) -> TextPair:
        texts = [field(record, name) for name in ("text", "positive")]
        if not all(isinstance(text, str) for text in texts):
            raise DataError("text and positive must be texts")
        return TextPair(*texts)

    def answers(self, inputs: Iterable[TextPair]) -> Iterator[Vectors | GlassformerError]:
        first, second = tee(inputs)
        anchors = self.embedder(pair.text for pair in first)
        found = self.embedder(pair.positive for pair in second)
        for pair in zip(anchors, found, strict=True):
            wrong = [one for one in pair if isinstance(one, GlassformerError)]
            yield wrong[0] if wrong else pair  # type: ignore[misc]  # both are vectors

    def compute_metrics(
        self, inputs: Sequence[TextPair], answers: Sequence[Vectors], draws: Resamples
    ) -> dict[str, MetricWithCI]:
        anchors, found = (np.stack(side) for side in zip(*answers, strict=True))
        ranks = ranks_of(anchors, found)
        nearest = draws.proportion(ranks == 1)
        return {"accuracy": nearest, **bootstrap_means({"mrr": 1 / ranks}, draws)}
