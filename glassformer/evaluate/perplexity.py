"""Perplexity of a language model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from glassformer.data.record import Record
from glassformer.errors import DataError, GlassformerError
from glassformer.evaluate.evaluator import Evaluator, field
from glassformer.evaluate.lm_harness.run import context_of, perplexities, require_language_model
from glassformer.generate import Score
from glassformer.metrics.bootstrap import MetricWithCI, Numbers, Resamples, bootstrap_sums
from glassformer.model import Model

BLOCK = 512  # tokens


class PerplexityEvaluator(Evaluator[str, Score]):
    """Evaluates perplexity and bits per byte.

    Column: `text`, or a plain text file as a whole. Texts are read as by `score`, in windows of the
    model's context length. All tokens count but the first of a text, which is given.
    """

    form = "text"

    def __init__(self, model: Model) -> None:
        require_language_model(model)
        self.model = model

    def ask(self, record: Record) -> str:
        text = field(record, "text")
        if not isinstance(text, str) or not text.strip():
            raise DataError("the text is empty")
        return text

    def answers(self, inputs: Iterable[str]) -> Iterator[Score | GlassformerError]:
        context = context_of(self.model)
        for text in inputs:
            try:
                yield self.model.score(text, window=context)
            except GlassformerError as error:
                yield error

    def compute_metrics(
        self, inputs: Sequence[str], answers: Sequence[Score], draws: Resamples
    ) -> dict[str, MetricWithCI]:
        """Computes the metrics.

        The bootstrap resamples blocks of tokens, since a long text is one record. The bytes of a
        text are distributed over its blocks in proportion to their tokens.
        """
        sums = []
        for text, score in zip(inputs, answers, strict=True):
            each = self.predicted_bytes(text) / len(score.logprobs)
            for start in range(0, len(score.logprobs), BLOCK):
                block = score.logprobs[start : start + BLOCK]
                sums.append((sum(block), len(block), each * len(block)))
        named = {"perplexity": perplexities, "bits_per_byte": bits_per_byte}
        return bootstrap_sums(sums, named, draws)

    def predicted_bytes(self, text: str) -> int:
        """Returns the bytes of a text without those of its first token.

        The first token has no bytes if it only marks the beginning.
        """
        assert self.model.tokenizer is not None
        given = self.model.tokenizer.decode(self.model.tokenizer.encode(text).ids[:1])
        return len(text.encode("utf-8")) - len(given.encode("utf-8"))


def bits_per_byte(sums: Numbers) -> Numbers:
    """Computes bits per byte from sums of log-probabilities, tokens and bytes, [draw, 3].

    Unlike perplexity, it can be compared between vocabularies.
    """
    found: Numbers = -sums[:, 0] / (sums[:, 2] * math.log(2))
    return found
