"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glassformer.evaluate.lm_harness import benchmark_prompts
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
        benchmark_prompts.lambada,
        word=True,
        plain=Plain(1, lambda lines: {"text": lines[0]}),
    ),
    "hellaswag": Benchmark(
        "how a scene goes on",
        benchmark_prompts.hellaswag,
        by_length=True,
        plain=Plain(6, lambda lines: {"query": lines[0], "gold": lines[1], "choices": lines[2:]}),
    ),
    "piqa": Benchmark("how to do a thing", benchmark_prompts.piqa, by_length=True),
    "arc_easy": Benchmark("school science", benchmark_prompts.arc, by_length=True),
    "arc_challenge": Benchmark(
        "school science, the harder part", benchmark_prompts.arc, by_length=True
    ),
    "openbookqa": Benchmark(
        "facts of science, applied", benchmark_prompts.openbookqa, by_length=True
    ),
    "winogrande": Benchmark("whom a sentence means", benchmark_prompts.winogrande),
    "boolq": Benchmark("yes or no to a passage", benchmark_prompts.boolq),
    "copa": Benchmark("cause or effect", benchmark_prompts.copa),
    "choices": Benchmark("any query, choices and gold", benchmark_prompts.prepared, by_length=True),
}
