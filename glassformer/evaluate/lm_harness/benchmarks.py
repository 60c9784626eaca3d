"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glassformer.evaluate.lm_harness import benchmark_prompts as questions
from glassformer.evaluate.lm_harness.benchmark_prompts import BenchmarkQuestion, Record


@dataclass(frozen=True)
class Plain:
    lines: int
    record: Callable[[list[str]], Record]


@dataclass(frozen=True)
class Benchmark:
    """`ask` makes a question of a record. `by_length`: accuracy is also counted by the log-
    probability a character, and a byte, of the choices. `word`: the accuracy is whether greedy
    search would write the word, and its perplexity counts. `plain`: what so many lines of a file of
    plain text are, where the benchmark is told so."""

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
