"""Evaluation of speech recognition: word and character error rates, also of each speaker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from glassformer.data.record import Record
from glassformer.data.speech import audio_path
from glassformer.errors import DataError, GlassformerError, UnsupportedError
from glassformer.evaluate.evaluator import Evaluator, field
from glassformer.metrics.bootstrap import MetricWithCI, Resamples, bootstrap_sums
from glassformer.metrics.evaluation import GroupMetrics
from glassformer.metrics.speech import SpeechErrors, cer, wer
from glassformer.metrics.text_normalizers import Normalizer, normalizer_of
from glassformer.model import Model
from glassformer.signals.audio_features import AudioProcessor
from glassformer.tasks.batching import batched
from glassformer.tasks.speech.special_tokens import listens

SIDE_BY_SIDE = 16  # sounds per batch


class SpeechRecord(NamedTuple):
    """A sound with what is said in it."""

    path: Path
    text: str
    speaker: str | None
    language: str | None


class SpeechRecognitionEvaluator(Evaluator[SpeechRecord, str]):
    """Evaluates transcripts, which are written greedily and without times.

    Columns: `audio` and `text`; `speaker` and `language` if they are known.
    """

    form = "csv"

    def __init__(
        self, model: Model, language: str | None = None, normalizer: Normalizer = "basic"
    ) -> None:
        if not listens(model) or not isinstance(model.processor, AudioProcessor):
            raise UnsupportedError(
                f"speech-recognition needs a model that hears, and {model.architecture} does not; "
                "name a folder of Whisper."
            )
        self.model, self.language = model, language
        self.processor = model.processor
        self.normalize = normalizer_of(normalizer)

    def ask(self, record: Record) -> SpeechRecord:
        text = field(record, "text")
        if not isinstance(text, str):
            raise DataError(f"the text is {text!r:.40}, and not a text")
        speaker, language = record.get("speaker"), record.get("language") or self.language
        return SpeechRecord(
            audio_path(record),
            text,
            None if speaker in (None, "") else str(speaker),
            None if language is None else str(language).partition("-")[0],
        )

    def answers(self, inputs: Iterable[SpeechRecord]) -> Iterator[str | GlassformerError]:
        for batch in batched(inputs, SIDE_BY_SIDE):
            found: dict[int, str | GlassformerError] = {}
            rows: defaultdict[str | None, list[tuple[int, Tensor]]] = defaultdict(list)
            for index, record in enumerate(batch):
                try:
                    rows[record.language].append((index, self._features(record.path)))
                except GlassformerError as error:
                    found[index] = error
            for language, own in rows.items():
                texts = self._written([features for _, features in own], language)
                found |= dict(zip((index for index, _ in own), texts, strict=True))
            yield from (found[index] for index in range(len(batch)))

    def _features(self, path: Path) -> Tensor:
        samples = self.processor.samples_of(path, None)
        if len(samples) > self.processor.samples:
            seconds = len(samples) / self.processor.rate
            raise DataError(
                f"{path} is {seconds:.1f} s long, and the model hears {self.processor.seconds:g} s "
                "at once; cut it into shorter ones",
                path=path,
            )
        return self.processor(samples)[0]

    def _written(self, sounds: list[Tensor], language: str | None) -> list[str]:
        assert self.model.spec.decoder is not None
        options: dict[str, Any] = {"max_length": self.model.spec.decoder.context_length}
        if language is not None and (self.model.generation_config or {}).get("lang_to_id"):
            options |= {"language": language, "task": "transcribe"}
        return [one.text.strip() for one in self.model.generate(sounds, **options)]

    def compute_metrics(
        self, inputs: Sequence[SpeechRecord], answers: Sequence[str], draws: Resamples
    ) -> dict[str, MetricWithCI]:
        errors = [
            SpeechErrors.of(one.text, written, self.normalize)
            for one, written in zip(inputs, answers, strict=True)
        ]
        return bootstrap_sums(SpeechErrors.sums(errors), {"wer": wer, "cer": cer}, draws)

    def speakers(
        self, inputs: Sequence[SpeechRecord], answers: Sequence[str], draws: Resamples
    ) -> dict[str, GroupMetrics]:
        """Returns the metrics of each speaker, sorted by name; none if no record names one."""
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for index, one in enumerate(inputs):
            if one.speaker is not None:
                rows[one.speaker].append(index)
        found: dict[str, GroupMetrics] = {}
        for name, own in sorted(rows.items()):
            records, written = [inputs[i] for i in own], [answers[i] for i in own]
            found[name] = GroupMetrics(len(own), self.compute_metrics(records, written, draws))
        return found
