"""Runs what tuned.py and written.py compare, a few processes at a time:

    python recipes/measure.py classify entities/wnut17 together multi30k/de-en lm summaries

A word is a kind of theirs, or one task of it (`classify/sst2`); `--modes full,lora,frozen` and
`--seeds 1,2,3` choose as there. `--at-once 3` processes run all the time, each with one comparison:
its sides in turn, with odd seeds ours first and with even ones the other first, so that both see
the same neighbors. After `--minutes` nothing new is begun. Every result goes to recipes/results at
once, with how many ran at a time (`at once`). The same command goes on where it was stopped: what
is there is not measured again, unless more ran at a time then, or nobody knows how many.

`--list` only says what is left. `lm` is what some of `summaries` start from: run it before. What
processes print goes to runs/measure. `--trial` is as there.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from multiprocessing.queues import Queue

import torch
import tuned
import written
from written_data import prepare

from bench import AT_ONCE, CORES, ROOT, Bench, Job

LOGS = ROOT / "runs" / "measure"
KINDS: dict[str, Iterable[str]] = {**tuned.KINDS, **written.KINDS, "lm": ("lm",)}


@dataclass(frozen=True)
class Comparison:
    """What is to be measured under the same conditions; told to other processes by its names."""

    kind: str
    name: str
    mode: str
    seed: int
    trial: bool

    @property
    def bench(self) -> Bench:
        """With what is known by now."""
        return Bench(self.name if self.kind in tuned.KINDS else f"written-{self.name}", self.trial)

    def jobs(self) -> list[tuple[str, Job]]:
        """By the names that the results have, ours first or last."""
        if self.kind in tuned.KINDS:
            made = tuned.jobs(self.bench, self.kind, self.name, self.mode, self.seed)
        elif self.kind == "lm":
            made = {"lm": partial(written.language_model, self.bench)}
        else:
            kind = written.KINDS[self.kind][self.name]
            made = written.jobs(self.bench, self.name, kind, self.seed)
        return list(made.items())[:: 1 if self.seed % 2 else -1]

    def left(self, at_once: int) -> list[tuple[str, Job]]:
        """What was not measured yet beside so few others; of a language model also what is not
        here to start from."""
        found = self.bench.results
        if self.kind == "lm" and not (self.bench.place / written.LM).exists():
            found = {}
        return [
            (key, job)
            for key, job in self.jobs()
            if found.get(key, {}).get(AT_ONCE, at_once + 1) > at_once
        ]


def comparisons(given: argparse.Namespace) -> Iterator[Comparison]:
    """Seed by seed, so that there is something of each early."""
    named = [task for word in given.what for task in tasks_of(word)]
    seeds = [int(seed) for seed in given.seeds.split(",")]
    for seed, (kind, name) in product(seeds, named):
        modes = given.modes.split(",")
        for mode in tuned.modes_of(name, modes) if kind in tuned.KINDS else ["full"]:
            if kind != "lm" or seed == seeds[0]:
                yield Comparison(kind, name, mode, seed, given.trial)


def tasks_of(word: str) -> list[tuple[str, str]]:
    kind, _, name = word.partition("/")
    if kind not in KINDS:
        raise SystemExit(f"There is no {kind!r}; there are {', '.join(KINDS)}.")
    if name not in ("", *KINDS[kind]):
        raise SystemExit(f"{kind} has {', '.join(KINDS[kind])}, not {name!r}.")
    return [(kind, each) for each in KINDS[kind] if name in ("", each)]


def work(waiting: Queue[Comparison | None], number: int, at_once: int, end: float) -> None:
    """One process: comparison after comparison, while there is time."""
    told = os.fdopen(os.dup(1), "w", buffering=1)
    log = LOGS / f"{number}.log"
    with log.open("a") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    if torch.cuda.is_available():  # or what one keeps for later is missing for another
        torch.cuda.set_per_process_memory_fraction(1 / at_once)
    while (comparison := waiting.get()) is not None:
        bench = comparison.bench
        os.chdir(bench.place)
        for key, job in comparison.left(at_once):
            begun = time.time()
            if begun > end:
                return
            try:
                made = job()
                bench.keep(key, made | {AT_ONCE: at_once})
                said = f"{made['seconds']:6.1f} s"
            except Exception as error:  # the others go on
                traceback.print_exc()
                said = f"FAILED, {type(error).__name__}: {str(error)[:160]} (more in {log})"
            freed()
            whole = time.time() - begun  # with what is not counted: preparation, rehearsal, writing
            clock = time.strftime("%H:%M:%S")
            told.write(f"{clock}  {bench.path.stem:<24} {key:<24} {said} of {whole:.1f}\n")


def freed() -> None:
    """Recordings of a model hold each other, and more memory than the next one leaves them."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("what", nargs="+")
    asked.add_argument("--seeds", default="1,2,3")
    asked.add_argument("--modes", default=",".join(tuned.MODES))
    asked.add_argument("--at-once", type=int, default=3)
    asked.add_argument("--minutes", type=float, default=60.0)
    asked.add_argument("--list", action="store_true")
    asked.add_argument("--trial", action="store_true")
    given = asked.parse_args()
    end, at_once = time.time() + 60 * given.minutes, given.at_once
    every = list(comparisons(given))
    if not given.list:
        measure([one for one in every if one.left(at_once)], at_once, end)
    left = [f"{one.bench.path.stem} {key}" for one in every for key, _ in one.left(at_once)]
    print(f"{len(left)} left" + ": " * bool(left) + ", ".join(left))


def measure(todo: Sequence[Comparison], at_once: int, end: float) -> None:
    for group, trial in {(one.kind, one.trial) for one in todo if one.kind in written.KINDS}:
        prepare(Bench(group, trial), group)
    LOGS.mkdir(parents=True, exist_ok=True)
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ.setdefault(name, str(max(1, CORES // (2 * at_once))))
    context = get_context("spawn")  # CUDA cannot be forked
    waiting: Queue[Comparison | None] = context.Queue()
    for one in (*todo, *[None] * at_once):
        waiting.put(one)
    running = [context.Process(target=work, args=(waiting, number, at_once, end), daemon=True)
               for number in range(at_once)]  # fmt: skip
    for process in running:
        process.start()
    try:
        for process in running:
            process.join()
    except KeyboardInterrupt:  # which they have heard, too
        print("Stopped; the same command goes on.")
    waiting.cancel_join_thread()  # what nobody had time for


if __name__ == "__main__":
    main()
