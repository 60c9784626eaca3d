"""Evaluation of translation and summarization against references."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from glassformer.data.record import Record
from glassformer.errors import DataError, GlassformerError
from glassformer.evaluate.evaluator import Evaluator, field
from glassformer.metrics.bootstrap import MetricWithCI, Resamples, bootstrap, bootstrap_means
from glassformer.metrics.rouge import porter_stemmer
from glassformer.metrics.translation import (
    check_sacrebleu,
    streams_of,
    summary_scores,
    translation_metrics,
)
from glassformer.model import Model
from glassformer.tasks.summarize import Summarizer, Summary
from glassformer.tasks.translate import Translation, Translator

Written = Translation | Summary


class Seq2SeqRecord(NamedTuple):
    """Source text with its references."""

    source: str
    references: list[str]


class Seq2SeqEvaluator(Evaluator[Seq2SeqRecord, Written]):
    """Base class of the evaluators of generated texts.

    Columns: `source`, and `target` with one reference or a list of them; or parallel files.
    """

    form = "parallel"

    def __init__(self, task: Translator | Summarizer) -> None:
        self.task = task

    def ask(self, record: Record) -> Seq2SeqRecord:
        source, target = field(record, "source"), field(record, "target")
        references = target if isinstance(target, list) else [target]
        if not isinstance(source, str) or not references:
            raise DataError("source must be a text, and target one or a list of them")
        if not all(isinstance(one, str) for one in references):
            raise DataError("target must be a text, or a list of them")
        return Seq2SeqRecord(source, references)

    def answers(self, inputs: Iterable[Seq2SeqRecord]) -> Iterator[Written | GlassformerError]:
        return self.task(one.source for one in inputs)


class TranslationEvaluator(Seq2SeqEvaluator):
    """Evaluates translation: corpus BLEU and chrF, by sacrebleu."""

    def __init__(self, model: Model, **options: Any) -> None:
        check_sacrebleu()
        super().__init__(Translator(model, check_language=False, **options))

    def compute_metrics(
        self, inputs: Sequence[Seq2SeqRecord], answers: Sequence[Written], draws: Resamples
    ) -> dict[str, MetricWithCI]:
        """Computes the metrics.

        The statistics of each text are computed once by sacrebleu, and added up for every resample.
        """
        references = [one.references for one in inputs]
        texts, streams = [answer.text for answer in answers], streams_of(references)
        found: dict[str, MetricWithCI] = {}
        for name, metric in zip(("bleu", "chrf"), translation_metrics(references), strict=True):
            counts = metric._extract_corpus_statistics(texts, streams)
            found |= bootstrap(counts, {name: self._of(metric)}, draws)
        return found

    @staticmethod
    def _of(metric: Any) -> Any:
        return lambda some: metric._aggregate_and_compute(some).score


class SummarizationEvaluator(Seq2SeqEvaluator):
    """Evaluates summarization: mean ROUGE over the texts."""

    def __init__(self, model: Model, **options: Any) -> None:
        porter_stemmer()
        super().__init__(Summarizer(model, **options))

    def compute_metrics(
        self, inputs: Sequence[Seq2SeqRecord], answers: Sequence[Written], draws: Resamples
    ) -> dict[str, MetricWithCI]:
        each = [
            summary_scores([answer.text], [one.references])
            for answer, one in zip(answers, inputs, strict=True)
        ]
        names = [metric.name.replace("ROUGE-", "rouge") for metric in each[0]]
        return bootstrap_means(
            {name: [some[i].value for some in each] for i, name in enumerate(names)}, draws
        )
