"""Evaluator of the benchmarks."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError
from glassformer.evaluate.evaluator import Evaluator
from glassformer.evaluate.lm_harness.benchmark_prompts import BenchmarkQuestion, Record
from glassformer.evaluate.lm_harness.benchmarks import Benchmark
from glassformer.evaluate.lm_harness.likelihood import Likelihood, likelihoods
from glassformer.evaluate.lm_harness.requests import (
    LikelihoodRequest,
    encode_request,
    truncate_request,
)
from glassformer.generate.context import context_length
from glassformer.metrics.bootstrap import MetricWithCI, Numbers, Resamples, bootstrap_sums
from glassformer.tasks.heads import purpose
from glassformer.tasks.model_protocol import TaskModel, require_tokenizer

BETWEEN = "\n\n"  # between few-shot examples
LENGTHS = ("n_positions", "max_position_embeddings", "n_ctx")  # context length in config.json
SEED = 1234  # seed of the harness for drawing examples


@dataclass(frozen=True)
class BenchmarkResult:
    """Likelihood of every choice of a question."""

    question: BenchmarkQuestion
    likelihoods: tuple[Likelihood, ...]

    @property
    def totals(self) -> list[float]:
        return [one.total for one in self.likelihoods]

    @property
    def right(self) -> bool:
        return best(self.totals) == self.question.gold

    @property
    def right_by_letters(self) -> bool:
        """Whether the choice with the highest log-probability per character is correct."""
        return self._by([len(choice) for choice in self.question.choices])

    @property
    def right_by_bytes(self) -> bool:
        return self._by([len(choice.encode("utf-8")) for choice in self.question.choices])

    def _by(self, lengths: Sequence[int]) -> bool:
        each = [total / n for total, n in zip(self.totals, lengths, strict=True)]
        return best(each) == self.question.gold


def best(numbers: Sequence[float]) -> int:
    """Returns the index of the largest number, the first one of ties."""
    return int(np.argmax(numbers))


def with_examples(
    questions: Sequence[BenchmarkQuestion],
    shots: int,
    pool: Sequence[BenchmarkQuestion] | None = None,
    seed: int = SEED,
) -> list[BenchmarkQuestion]:
    """Prepends few-shot examples to questions, drawn as in the harness.

    Args:
        questions: The questions.
        shots: Number of examples per question.
        pool: Questions to draw from; by default `questions` without the question itself.
        seed: Seed of the draw.
    """
    if not shots:
        return list(questions)
    given = questions if pool is None else pool
    most = len(given) - (pool is None)
    if not 0 < shots <= most:
        raise ConfigError(f"{shots} examples cannot be drawn from {most} records.")
    rng = random.Random(seed)
    with_shots = []
    for question in questions:
        drawn = rng.sample(list(given), shots + (pool is None))
        some = [one for one in drawn if pool is not None or one != question][:shots]
        if len(some) < shots:  # the sample contained copies of the question
            some = rng.sample([one for one in given if one != question], shots)
        before = "".join(one.shown + BETWEEN for one in some)
        with_shots.append(replace(question, contexts=tuple(before + c for c in question.contexts)))
    return with_shots


class BenchmarkEvaluator(Evaluator[BenchmarkQuestion, BenchmarkResult]):
    """Evaluates a language model by a benchmark.

    `shots` is the number of few-shot examples, drawn from `examples` or else from the questions.
    """

    def __init__(self, model: TaskModel, benchmark: Benchmark) -> None:
        require_language_model(model)
        self.model, self.benchmark = model, benchmark
        self.form = "jsonl" if benchmark.plain is None else "text"
        self.shots = 0
        self.examples: list[BenchmarkQuestion] | None = None

    def records(self, record: Record) -> Iterable[Record]:
        """Splits a plain text file into records of a fixed number of lines."""
        plain = self.benchmark.plain
        if "ends" not in record or plain is None:
            return [record]
        path = str(record["where"]).rpartition(":")[0]
        lines = [line for line in record["text"].split("\n") if line.strip()]
        starts = range(0, len(lines), plain.lines)
        if len(lines) % plain.lines:
            raise DataError(
                f"{path} has {len(lines)} lines, and each record has {plain.lines}; get it again.",
                path=path,
            )
        return [
            {**plain.record(lines[i : i + plain.lines]), "where": f"{path}:{i + 1}"} for i in starts
        ]

    def ask(self, record: Record) -> BenchmarkQuestion:
        return self.benchmark.ask(record)

    def answers(
        self, inputs: Iterable[BenchmarkQuestion]
    ) -> Iterator[BenchmarkResult | GlassformerError]:
        with_shots = with_examples(list(inputs), self.shots, self.examples)
        groups = [requests_or_error(self.model, question) for question in with_shots]
        fitting = [group for group in groups if not isinstance(group, GlassformerError)]
        likely = likelihoods(self.model, fitting)
        for question, group in zip(with_shots, groups, strict=True):
            if isinstance(group, GlassformerError):
                yield group
            else:
                yield BenchmarkResult(question, tuple(next(likely)))

    def compute_metrics(
        self,
        inputs: Sequence[BenchmarkQuestion],
        answers: Sequence[BenchmarkResult],
        draws: Resamples,
    ) -> dict[str, MetricWithCI]:
        return benchmark_metrics(self.benchmark, answers, draws)


def requests_of(model: TaskModel, question: BenchmarkQuestion) -> list[LikelihoodRequest]:
    """Returns one request per choice of a question, truncated to the context length."""
    tokenizer, limit = require_tokenizer(model), context_of(model)
    pairs = zip(question.contexts, question.continuations, strict=True)
    return [truncate_request(encode_request(tokenizer, *pair), limit) for pair in pairs]


def requests_or_error(
    model: TaskModel, question: BenchmarkQuestion
) -> list[LikelihoodRequest] | GlassformerError:
    try:
        return requests_of(model, question)
    except GlassformerError as error:
        return error


def context_of(model: TaskModel) -> int | None:
    """Returns the context length the model was made for, also if its position table has no end."""
    length = next((model.config[key] for key in LENGTHS if model.config.get(key)), None)
    if length is None:
        length = require_tokenizer(model).max_length
    limits = length, context_length(model.decoder)
    return min((limit for limit in limits if limit is not None), default=None)


def require_language_model(model: TaskModel) -> None:
    """Raises an error unless the model is a decoder with a language model head."""
    spec = model.spec
    if (
        spec.decoder is None
        or spec.encoder is not None
        or not any(h.name == "lm" for h in spec.heads)
    ):
        raise UnsupportedError(
            "Benchmarks by log-probability need a decoder with a language modeling head; "
            f"{model.architecture} is {purpose(model)}."
        )


def benchmark_metrics(
    benchmark: Benchmark, judgments: Sequence[BenchmarkResult], draws: Resamples | None = None
) -> dict[str, MetricWithCI]:
    """Computes the metrics, named and defined as in the harness.

    Word perplexity is per word, that is of all tokens of a word together.
    """
    draws = draws or Resamples()
    if benchmark.word:
        hits = [one.likelihoods[0].greedy for one in judgments]
        totals = [[one.totals[0], 1.0] for one in judgments]
        perplexity = bootstrap_sums(totals, {"perplexity": perplexities}, draws)
        return {**perplexity, "acc": draws.proportion(hits)}
    right = {"acc": [one.right for one in judgments]}
    if benchmark.by_length:
        right["acc_norm"] = [one.right_by_letters for one in judgments]
        right["acc_bytes"] = [one.right_by_bytes for one in judgments]
    return {name: draws.proportion(hits) for name, hits in right.items()}


def perplexities(sums: Numbers) -> Numbers:
    """Computes perplexities from sums of log-probabilities and their counts, [draw, 2]."""
    with np.errstate(over="ignore"):
        found: Numbers = np.exp(-sums[:, 0] / sums[:, 1])
    return found
