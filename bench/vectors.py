"""Word vectors beside gensim at equal settings, on two cores: how fast each reads and learns, and
what the vectors know. Each side of a round is a process of its own, in turn.

    python bench/vectors.py TEXT... --analogies questions-words.txt --similarities wordsim353.tsv

gensim runs in both of its ways, from sentences in memory and from a file (`corpus_file`); ratios
are to the faster, points above the one that knows more. CPU seconds stand beside those of the
clock: a busy machine changes them less.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SETTINGS = {"vector_size": 100, "window": 5, "negative": 5, "epochs": 5, "num_workers": 2}
MIN_COUNT = 5
SIDES = ("gensim", "gensim corpus_file", "glassformer")


class Clock:
    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def passed(self) -> tuple[float, float]:
        return time.perf_counter() - self.wall, time.process_time() - self.cpu


def glassformer_side(text: Path, kind: str, seed: int, out: Path) -> dict[str, Any]:
    from glassformer.word_vectors import Word2Vec, learn_word2vec, read_corpus, write_vectors
    from glassformer.word_vectors.kernel import kernel

    assert kernel() is not None, "compiled once, and kept for good"
    clock = Clock()
    corpus = read_corpus([text], min_count=MIN_COUNT)
    read = clock.passed()
    clock = Clock()
    vectors = learn_word2vec(corpus, Word2Vec(type=kind, seed=seed, **SETTINGS))
    learn = clock.passed()
    write_vectors(out, vectors)
    return {"read": read, "learn": learn}


def gensim_side(text: Path, kind: str, seed: int, out: Path, from_file: bool) -> dict[str, Any]:
    from gensim.models import Word2Vec

    clock = Clock()
    if from_file:
        source = {"corpus_file": str(text)}
    else:
        with text.open(encoding="utf-8") as lines:
            source = {"corpus_iterable": [line.split() for line in lines]}
    model = Word2Vec(
        vector_size=SETTINGS["vector_size"],
        window=SETTINGS["window"],
        negative=SETTINGS["negative"],
        workers=SETTINGS["num_workers"],
        min_count=MIN_COUNT,
        sg=int(kind == "skip-gram"),
        seed=seed,
    )
    model.build_vocab(**source)
    read = clock.passed()
    clock = Clock()
    model.train(
        **source,
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=SETTINGS["epochs"],
    )
    learn = clock.passed()
    model.wv.save_word2vec_format(str(out), binary=True)
    return {"read": read, "learn": learn}


def one_side(side: str, text: str, kind: str, seed: str, out: str) -> None:
    given = (Path(text), kind, int(seed), Path(out))
    if side == "glassformer":
        found = glassformer_side(*given)
    else:
        found = gensim_side(*given, from_file=side.endswith("corpus_file"))
    print(json.dumps(found))


def knows(path: Path, questions: Path, pairs: Path) -> dict[str, float]:
    """In percent; counted as gensim counts, to the same numbers, without its minutes."""
    from glassformer.word_vectors import analogies, read_vectors, similarities

    vectors = read_vectors(path)
    like = similarities(vectors, pairs)
    return {
        "analogies": 100 * analogies(vectors, questions)[-1].accuracy,
        "spearman": 100 * like.spearman,
        "pearson": 100 * like.pearson,
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("text", nargs="+", type=Path)
    asked.add_argument("--analogies", type=Path, required=True)
    asked.add_argument("--similarities", type=Path, required=True)
    asked.add_argument("--kinds", nargs="+", default=["skip-gram", "cbow"])
    asked.add_argument("--rounds", type=int, default=3)
    given = asked.parse_args()
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_bytes(b"\n".join(path.read_bytes() for path in given.text))
        words = SETTINGS["epochs"] * len(text.read_text("utf-8").split())
        for kind in given.kinds:
            times: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
            scores: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
            for turn in range(given.rounds):
                for side in SIDES:
                    out = Path(folder) / "vectors.bin"
                    command = [sys.executable, __file__, "--side", side, str(text), kind]
                    command += [str(turn + 1), str(out)]
                    ran = subprocess.run(command, capture_output=True, check=True, env=quiet)
                    times[side].append(json.loads(ran.stdout))
                    scores[side].append(knows(out, given.analogies, given.similarities))
                    print(kind, side, times[side][-1], scores[side][-1], flush=True)
            rows.append(summary(kind, words, times, scores))
            write(rows)


def write(rows: list[dict[str, Any]]) -> None:
    """The last result, committed beside the script."""
    load = [round(one, 1) for one in os.getloadavg()]
    machine = {"cores": os.cpu_count(), "load": load, "cpu": platform.machine()}
    result = {"machine": machine, "settings": SETTINGS | {"min_count": MIN_COUNT}, "results": rows}
    Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n")


def summary(
    kind: str,
    words: int,
    times: dict[str, list[dict[str, Any]]],
    scores: dict[str, list[dict[str, float]]],
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "what": kind,
        "words of all epochs": words,
        "rounds": len(times[SIDES[0]]),
    }
    for side in SIDES:
        wall, cpu = (statistics.median(t["learn"][i] for t in times[side]) for i in range(2))
        row[side] = {
            "words/s": round(words / wall),
            "words/CPU s": round(words / cpu),
            "read s": round(statistics.median(t["read"][0] for t in times[side]), 2),
            **{
                name: round(statistics.mean(s[name] for s in scores[side]), 2)
                for name in scores[side][0]
            },
        }
    ours, theirs = row["glassformer"], [row[side] for side in SIDES if side != "glassformer"]
    for name in ("words/s", "words/CPU s"):
        row[f"ratio of {name}"] = round(ours[name] / max(one[name] for one in theirs), 2)
    for name in ("analogies", "spearman"):
        row[f"points of {name} above"] = round(ours[name] - max(one[name] for one in theirs), 2)
    print(json.dumps(row, indent=2))
    return row


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        one_side(*sys.argv[2:])
    else:
        main()
