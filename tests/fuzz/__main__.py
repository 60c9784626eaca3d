"""Fuzzing of all registered readers: python -m tests.fuzz --seed 1 --trials 100000.

A trial takes a valid sample of a reader, mutates its files, and reads them in a fork (`sandbox`).
It must end with a result, or with one sentence. A trial is a function of the seed, its number and
the reader: `--trial 17` repeats one, and `--keep FOLDER` keeps its files. Ctrl-C ends the trials;
`--record` then records those that were done. `--again` repeats the failures of the record, after
their cause is mended, and records what became of them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
os.environ |= {"PATH": "/nonexistent", "CXX": ""}  # no compiler: a trial starts no program
sys.dont_write_bytecode = True

LIBRARIES = ("torch", "numpy", "safetensors", "tokenizers", "mido", "pillow", "jinja2", "pyarrow")
RECORD = Path(__file__).with_name("record.json")


@dataclass
class Tally:
    """What the trials of one reader came to."""

    trials: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: float = 0.0
    largest: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "trials": self.trials,
            **dict(sorted(self.kinds.items())),
            "mean_cpu_seconds": round(self.seconds / max(1, self.trials), 4),
            "most_cpu_seconds": round(self.slowest, 2),
            "most_megabytes": round(self.largest, 1),
        }


def main(words: Sequence[str] | None = None) -> int:
    options = parsed(words)
    from tests.fuzz.prepare import prepare
    from tests.fuzz.progress import Progress

    if options.again:
        return try_again(RECORD)
    readers = prepare(options.only)
    progress = Progress(1 if options.trial is not None else options.trials)
    names = [name for name, reader in readers.items() for _ in range(reader.weight)]
    numbers = [options.trial] if options.trial is not None else range(options.trials)
    tallies = {name: Tally() for name in readers}
    failures: list[dict[str, Any]] = []
    begin = time.process_time()
    place = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        for number in numbers:
            name = Random(f"{options.seed}/{number}").choice(names)
            outcome = trial(readers[name], options.seed, number, place, options.keep)
            record(tallies[name], outcome)
            progress.show(sum(tally.trials for tally in tallies.values()), len(failures))
            if options.trial is not None:
                print(f"{name}: {asdict(outcome)}")
            if not outcome.good:
                failures.append({"trial": number, "reader": name, **asdict(outcome)})
                progress.clear()
                print(f"--trial {number} ({name}) {outcome.kind}: {outcome.message}", flush=True)
    except KeyboardInterrupt:
        print("interrupted; the trials before this one count")
    finally:
        progress.clear()
        shutil.rmtree(place)
    counts = {"trials": sum(t.trials for t in tallies.values()), "failures": len(failures)}
    print(f"seed {options.seed}: {counts}, {time.process_time() - begin:.0f} s beside the forks")
    if options.record is not None:
        write_record(options, counts["trials"], tallies, failures)
    return 1 if failures else 0


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--only", action="append", default=[], help="a reader; may be repeated")
    parser.add_argument("--trial", type=int, help="repeats the trial of this number")
    parser.add_argument("--keep", type=Path, help="keeps the files of --trial in this new folder")
    parser.add_argument("--record", type=Path, nargs="?", const=RECORD)
    parser.add_argument("--again", action="store_true", help="repeats the recorded failures")
    options = parser.parse_args(words)
    if options.keep is not None and options.trial is None:
        sys.exit("--keep keeps the files of one trial; name it with --trial.")
    if options.keep is not None and os.path.lexists(options.keep):
        sys.exit(f"{options.keep} exists; name a new folder for --keep.")
    return options


def try_again(path: Path) -> int:
    """Repeats the failures of a record; those that end well now are listed as `mended`."""
    from tests.fuzz.prepare import prepare

    content = json.loads(path.read_text("utf-8"))
    readers, failures = prepare([]), []
    place = Path(tempfile.mkdtemp())
    for failure in content["failures"]:
        name, number = failure["reader"], failure["trial"]
        outcome = trial(readers[name], content["seed"], number, place)
        print(f"--trial {number} ({name}) {outcome.kind}: {outcome.message}", flush=True)
        if not outcome.good:
            failures.append(failure)
            continue
        kinds = content["readers"][name]
        kinds[failure["kind"]] -= 1
        kinds[outcome.kind] = kinds.get(outcome.kind, 0) + 1
        content.setdefault("mended", []).append(failure)
    shutil.rmtree(place)
    content["failures"] = failures
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    return 1 if failures else 0


def trial(reader: Any, seed: int, number: int, place: Path, keep: Path | None = None) -> Any:
    """Runs one trial and returns its outcome."""
    from tests.fuzz.mutate import mutated
    from tests.fuzz.sandbox import attempt

    rng = Random(f"{seed}/{number}/{reader.name}")
    sample = rng.choice(reader.samples())
    target = rng.choice(sample.targets or tuple(sample.files))
    files = dict(sample.files)
    files[target] = mutated(rng, target, files[target], reader.mutations)
    folder = place / "files"
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    if keep is not None:
        shutil.copytree(folder, keep)
    outcome = attempt(reader.read, folder)
    shutil.rmtree(folder)
    return outcome


def record(tally: Tally, outcome: Any) -> None:
    tally.trials += 1
    tally.kinds[outcome.kind] += 1
    tally.seconds += outcome.seconds
    tally.slowest = max(tally.slowest, outcome.seconds)
    tally.largest = max(tally.largest, outcome.megabytes)


def write_record(
    options: argparse.Namespace, trials: int, tallies: Any, failures: list[Any]
) -> None:
    content = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "seed": options.seed,
        "trials": trials,
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
        "readers": {name: tally.as_json() for name, tally in sorted(tallies.items())},
        "failures": failures,
    }
    options.record.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    gc.disable()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main())
