"""The public function `gf.evaluate(model, data)`, and the choice of the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from glassformer.data.sources import OnError, RecordSource, Source
from glassformer.errors import ConfigError, DataError, GlassformerError
from glassformer.evaluate.classification import ClassificationEvaluator
from glassformer.evaluate.embedding import EmbeddingEvaluator
from glassformer.evaluate.evaluator import Evaluator, near
from glassformer.evaluate.lm_harness.benchmarks import BENCHMARKS
from glassformer.evaluate.lm_harness.run import BenchmarkEvaluator
from glassformer.evaluate.masked_lm import MaskedLMEvaluator
from glassformer.evaluate.objective_metrics import ObjectiveEvaluator
from glassformer.evaluate.perplexity import PerplexityEvaluator
from glassformer.evaluate.seq2seq import SummarizationEvaluator, TranslationEvaluator
from glassformer.evaluate.speech import SpeechRecognitionEvaluator
from glassformer.evaluate.tagging_qa import QuestionAnsweringEvaluator, TaggingEvaluator
from glassformer.loading import load
from glassformer.metrics.bootstrap import Resamples
from glassformer.metrics.evaluation import Evaluation
from glassformer.metrics.registry import find_metric
from glassformer.model import Model
from glassformer.spec import head_among
from glassformer.tasks.heads import kind_of, purpose, require_head
from glassformer.tasks.registry import TASKS as VERBS
from glassformer.tasks.speech.special_tokens import listens
from glassformer.tasks.task_settings import COLUMNS, settings_of
from glassformer.tasks.task_words import verb_of
from glassformer.train.given_rows import rows_of
from glassformer.train.objectives.multiple_choice import MultipleChoice
from glassformer.train.objectives.regression import Regression

Progress = Callable[[Iterable[Any], int], Iterable[Any]]  # wraps the answers, with their count
OF_HEADS: dict[str, tuple[str, Callable[[Model, str], Evaluator[Any, Any]]]] = {
    "classification": ("classify", ClassificationEvaluator),
    "regression": (
        "classify",
        lambda model, head: ObjectiveEvaluator(model, Regression(model, head=head)),
    ),
    "tagging": ("tag", TaggingEvaluator),
    "question-answering": ("span", QuestionAnsweringEvaluator),
    "multiple-choice": (
        "choose",
        lambda model, head: ObjectiveEvaluator(
            model, MultipleChoice(model, head=head), proportions=("accuracy",)
        ),
    ),
}
REWRITING: dict[str, Callable[..., Evaluator[Any, Any]]] = {
    "translation": TranslationEvaluator,
    "summarization": SummarizationEvaluator,
}
OF_VOCABULARY: dict[str, Callable[[Model], Evaluator[Any, Any]]] = {
    "perplexity": PerplexityEvaluator,
    "masked-lm": MaskedLMEvaluator,
}
OF_STATES: dict[str, Callable[[Model], Evaluator[Any, Any]]] = {"embedding": EmbeddingEvaluator}
OF_SOUND: dict[str, Callable[..., Evaluator[Any, Any]]] = {
    "speech-recognition": SpeechRecognitionEvaluator,
}
TASKS = (*OF_HEADS, *REWRITING, *OF_VOCABULARY, *OF_SOUND, *OF_STATES, *BENCHMARKS)


def evaluate(
    model: Model | str | Path,
    data: Source,
    task: str | None = None,
    *,
    head: str | None = None,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
    on_error: OnError = "stop",
    limit: int | None = None,
    num_fewshot: int = 0,
    examples: Source | None = None,
    n_resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
    progress: Progress | None = None,
    **options: Any,
) -> Evaluation:
    """Evaluates a model on data with known answers.

    Args:
        model: A model, or the path or name of one.
        data: Files, by their paths or patterns, a DataFrame, a Dataset, or records.
        task: One of `TASKS`; by default the task of the model's head.
        head: Name of the head, if the model has several.
        format: Format of the files, as in training; by default by their suffix.
        columns: Maps column names of the task to those of the data; by default those that the
            model was trained on.
        encoding: Encoding of the files; None is UTF-8, or that of a table.
        on_error: "stop" at an invalid record, or "skip" it.
        limit: Maximum number of records.
        num_fewshot: Number of answered examples before each question of a benchmark.
        examples: Data to draw these examples from; by default `data` itself.
        n_resamples: Bootstrap resamples of the records; 0 for no confidence intervals.
        seed: Seed of the resamples.
        confidence: Level of the confidence intervals: Wilson intervals for the proportion of
            correct records, BCa bootstrap intervals for other metrics.
        progress: Wraps the iterable of answers, to display progress.
        options: Options of `Model.translate` or `Model.summarize`; for speech recognition the
            `language` and the `normalizer`.

    Returns:
        The metrics with their confidence intervals.

    >>> gf.evaluate("runs/reviews/model", "test.jsonl").metrics["accuracy"]
    """
    loaded = load(model) if isinstance(model, str | Path) else model
    drawing = Resamples(n_resamples, seed, confidence)
    name = named_task(task, loaded, head) if task else task_of(loaded, head)
    evaluator = make_evaluator(loaded, name, head, options)
    read = partial(
        RecordSource,
        format=format,
        default_format=evaluator.form,
        columns=columns,
        encoding=encoding,
        on_error=on_error,
    )
    if isinstance(evaluator, BenchmarkEvaluator):
        evaluator.shots = num_fewshot
        if examples is not None:
            evaluator.examples = [question for _, question in questions(evaluator, read(examples))]
    elif num_fewshot or examples is not None:
        raise ConfigError(
            f"Few-shot examples are for benchmarks, and {name} is not one; there are "
            f"{', '.join(BENCHMARKS)}."
        )
    if hasattr(data, "columns") or hasattr(data, "column_names"):  # a DataFrame or a Dataset
        data = rows_of(data)
    records = read(data)
    records.usual_columns = dict(settings_of(loaded, COLUMNS))
    given, answers = answer_records(evaluator, records, limit, progress)
    if not given:
        why = (
            f" The first of {len(records.skipped)}: {records.skipped[0]}" if records.skipped else ""
        )
        raise DataError(f"There are no records to evaluate with.{why}")
    metrics = evaluator.compute_metrics(given, answers, drawing)
    for metric in metrics:
        find_metric(metric)  # an undeclared one is an error
    return Evaluation(
        task=name,
        records=len(given),
        metrics=metrics,
        classes=evaluator.classes(given, answers),
        skipped=tuple(records.skipped),
        speakers=evaluator.speakers(given, answers, drawing),
    )


def named_task(word: str, model: Model, head: str | None = None) -> str:
    """Returns the task for a word such as "classify", "ner" or "qa"."""
    if word in TASKS:
        return word
    verb = verb_of(word)
    declared = None if verb is None else VERBS.find(verb).training
    if declared is None or declared.evaluation is None:
        raise ConfigError(f"There is no task {word!r}{near(word, TASKS, len(TASKS))}.")
    return task_of(model, head) if declared.evaluation == "classification" else declared.evaluation


def task_of(model: Model, head: str | None = None) -> str:
    """Returns the task that the model's head is for."""
    spec = model.spec
    heads = [one for one in spec.heads if not one.auxiliary]
    if head is not None:
        heads = [head_among(heads, head)]
    kinds = list(dict.fromkeys(kind_of(one, spec) for one in heads))
    named = [task for task, (kind, _) in OF_HEADS.items() if kind in kinds]
    if "classify" in kinds:
        saved = settings_of(model, next(h.name for h in heads if kind_of(h, spec) == "classify"))
        kind = saved.get("problem_type", model.config.get("problem_type"))
        named.remove("classification" if kind == "regression" else "regression")
    if len(named) == 1:
        return named[0]
    if len(named) > 1:
        meant = [one.name for one in heads if kind_of(one, spec) != "pooler"]
        raise ConfigError(
            f"{model.architecture} has heads for {' and '.join(named)}; give the task, or the "
            f"head ({', '.join(meant)})."
        )
    if listens(model):
        return "speech-recognition"
    if "lm" in kinds and (spec.encoder is None or spec.decoder is None):
        return "perplexity" if spec.encoder is None else "masked-lm"
    if "lm" in kinds and model.tokenizer is not None and model.tokenizer.language_tokens:
        return "translation"  # the model has tokens for target languages
    raise ConfigError(
        f"The task of {model.architecture} cannot be inferred from its heads: it is "
        f"{purpose(model)}. Give one of the tasks {', '.join(TASKS)}."
    )


def make_evaluator(
    model: Model, task: str, head: str | None, options: Mapping[str, Any]
) -> Evaluator[Any, Any]:
    """Returns the evaluator of a task, or raises an error if the model does not fit it."""
    writing = {**REWRITING, **OF_SOUND}
    if task in writing:
        return writing[task](model, **options)
    if options:
        raise ConfigError(f"The task {task} has no option {next(iter(options))!r}.")
    if task in BENCHMARKS:
        return BenchmarkEvaluator(model, BENCHMARKS[task])
    if task in OF_VOCABULARY:
        return OF_VOCABULARY[task](model)
    if task in OF_STATES:
        return OF_STATES[task](model)
    kind, make = OF_HEADS[task]
    found = require_head(model, kind, f"evaluate by {task}", head, objective=task)
    return make(model, found.name)


def questions(evaluator: Evaluator[Any, Any], records: RecordSource) -> Iterator[tuple[str, Any]]:
    """Yields (location, question) for each valid record."""
    for record in chain.from_iterable(map(evaluator.records, records)):
        try:
            yield record["where"], evaluator.ask(record)
        except GlassformerError as error:
            records.reject(record["where"], str(error))


def answer_records(
    evaluator: Evaluator[Any, Any],
    records: RecordSource,
    limit: int | None,
    progress: Progress | None,
) -> tuple[list[Any], list[Any]]:
    """Returns questions and answers, without those that could not be answered."""
    located_questions = list(islice(questions(evaluator, records), limit))
    kept: tuple[list[Any], list[Any]] = [], []
    answers: Iterable[Any] = evaluator.answers(question for _, question in located_questions)
    answers = answers if progress is None else progress(answers, len(located_questions))
    for (where, question), answer in zip(located_questions, answers, strict=True):
        if isinstance(answer, GlassformerError):
            records.reject(where, str(answer))
        else:
            kept[0].append(question)
            kept[1].append(answer)
    return kept
