"""Table of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glassformer.evaluate.lm_harness import benchmark_prompts as questions
from glassformer.evaluate.lm_harness.benchmark_prompts import BenchmarkQuestion, Record


@dataclass(frozen=True)
class Plain:
    """Layout of a plain text file: lines per record, and the function that makes the record."""

    lines: int
    record: Callable[[list[str]], Record]


@dataclass(frozen=True)
class Benchmark:
    """Definition of a benchmark.

    Attributes:
        about: Short description.
        ask: Makes a question of a record.
        by_length: Whether accuracy is also computed with log-probabilities per character and per
            byte.
        word: Whether to predict a single word: accuracy is that of greedy search, with the
            perplexity.
        plain: Layout of plain text files, if the benchmark is distributed as such.
    """

    about: str
    ask: Callable[[Record], BenchmarkQuestion]
    by_length: bool = False
    word: bool = False
    plain: Plain | None = None


BENCHMARKS = {
    "lambada": Benchmark(
        "the last word of a passage",
        questions.lambada,
        word=True,
        plain=Plain(1, lambda lines: {"text": lines[0]}),
    ),
    "hellaswag": Benchmark(
        "how a scene goes on",
        questions.hellaswag,
        by_length=True,
        plain=Plain(6, lambda lines: {"query": lines[0], "gold": lines[1], "choices": lines[2:]}),
    ),
    "piqa": Benchmark("how to do a thing", questions.piqa, by_length=True),
    "arc_easy": Benchmark("school science", questions.arc, by_length=True),
    "arc_challenge": Benchmark("school science, the harder part", questions.arc, by_length=True),
    "openbookqa": Benchmark("facts of science, applied", questions.openbookqa, by_length=True),
    "winogrande": Benchmark("whom a sentence means", questions.winogrande),
    "boolq": Benchmark("yes or no to a passage", questions.boolq),
    "copa": Benchmark("cause or effect", questions.copa),
    "choices": Benchmark("any query, choices and gold", questions.prepared, by_length=True),
}
