"""Trains what writes, translations and summaries, beside transformers from the same weights:

    python recipes/written.py gather FROM data          what is needed of a folder with all texts
    python recipes/written.py multi30k [de-en ...]      translations, all kinds or those named
    python recipes/written.py lm                        the language model some summaries start from
    python recipes/written.py summaries [scitldr ...]   summaries
    python recipes/written.py try de-en                 other settings of a recipe, side by side
    python recipes/written.py tables                    docs/recipes.md anew from recipes/results

What is done is written to recipes/results at once and not done again. The time of a side is that
from its weights on a disk and its texts in files to a trained model; kinds may be run in processes
side by side, `--seeds` and `--sides` say what of each. `--trial` does it all in runs/trial with a
little of each text and tiny models, on a CPU.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import transformers
from hugging_writing import train_peer
from written_data import gather, prepare, running_text, tested
from written_tables import SIDES, multi30k_table, summaries_table

import glassformer as gf
from bench import RESULTS, ROOT, SEEDS, Bench, Job, known, put, show, started
from glassformer.metrics.translation import summary_scores, translation_scores
from glassformer.train.recipe import Recipe, read_recipe

AT_ONCE = 64  # texts, for both sides
LM = "runs/summaries/lm/model"
FRESH = (
    "model.num_layers=1",
    "model.num_heads=2",
    "model.hidden_size=16",
    "model.intermediate_size=32",
    "tokenizer.vocab_size=400",
)
TRIAL = ("train.max_steps=4", "train.warmup_steps=2", "train.precision=float32",
         "train.compile=false", "train.batch_size=2", "run.logging_steps=2")  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """What is compared: a recipe, and what is said otherwise here. `share` is of the training data;
    what only ours can do has no other side."""

    recipe: str
    test: tuple[str, ...]
    new_tokens: int
    settings: tuple[str, ...] = ()
    share: int = 1
    sides: tuple[str, ...] = tuple(SIDES)


def translating(pair: str, *settings: str, decoder: bool = False, **options: Any) -> Kind:
    recipe = f"multi30k-{pair}" + "-decoder" * decoder
    test = tuple(f"data/multi30k/test_2016_flickr.{side}" for side in pair.split("-"))
    return Kind(recipe, test, 96, settings, **options)


def summing_up(name: str, kind: str, new_tokens: int, fewer_steps: int) -> dict[str, Kind]:
    """From all training texts, and from a tenth."""
    recipe, test = name + kind, (f"data/{name}/test.jsonl",)
    few = (f"data.train=data/{name}/train-tenth.jsonl", f"train.max_steps={fewer_steps}",
           f"train.warmup_steps={fewer_steps // 4}")  # fmt: skip
    return {
        recipe: Kind(recipe, test, new_tokens),
        f"{recipe}-tenth": Kind(recipe, test, new_tokens, few, share=10),
    }


KINDS: dict[str, dict[str, Kind]] = {
    "multi30k": {
        "de-en": translating("de-en"),
        "fr-en": translating("fr-en"),
        "de-en-decoder": translating("de-en", "objective.prefix_lm=false", decoder=True),
        "de-en-prefix": translating("de-en", decoder=True, sides=("ours",)),
    },
    "summaries": {
        name: kind
        for which in ("", "-decoder", "-pretrained")
        for made in (
            summing_up("scitldr", which, 64, 150),
            summing_up("aeslc", which, 24, 500),
        )
        for name, kind in made.items()
    },
}  # fmt: skip

VARIANTS: dict[str, tuple[str, ...]] = {
    "as it is": (),
    "ffn 512": ("model.intermediate_size=512",),
    "6 layers": ("model.num_layers=6", "model.intermediate_size=512"),
    "cosine": ("train.lr_scheduler=cosine", "train.warmup_steps=300"),
    "rate 1e-3": ("train.learning_rate=1e-3",),
    "rate 3e-3": ("train.learning_rate=3e-3",),
    "10,000 pairs": ("tokenizer.vocab_size=10000",),
    "4,000 pairs": ("tokenizer.vocab_size=4000",),
    "16,384 tokens": ("data.tokens_per_batch=16384", "train.learning_rate=3e-3"),
    "twice as long": ("train.max_steps=6000", "train.ema_decay=0.999"),
    "dropout 0.2": ("model.config.dropout=0.2",),
    "dropout 0.4": ("model.config.dropout=0.4",),
}  # fmt: skip


# --- Both sides, from the same weights ---------------------------------------------------------


def jobs(
    bench: Bench, name: str, kind: Kind, seed: int, variant: str = "", more: Sequence[str] = ()
) -> dict[str, Job]:
    """What is compared with each other, by the names that the results have: both sides."""
    recipe_file = ROOT / "recipes" / f"{kind.recipe}.toml"
    plain = read_recipe(recipe_file)
    few = (*TRIAL, *(() if plain.model.base else FRESH)) if bench.trial else ()
    folder = Path("runs", "written", variant, name, str(seed))
    settings = (*kind.settings, *few, *VARIANTS.get(variant, ()), *more, f"train.seed={seed}")
    recipe = read_recipe(recipe_file, settings)
    if variant:  # nothing is chosen by test files
        kind = replace(kind, test=recipe.data.validation)
    start = cache(partial(started, recipe, folder))
    return {f"{side} {seed}": partial(one_side, bench, side, kind, folder, start)
            for side in kind.sides}  # fmt: skip


def one_side(
    bench: Bench, side: str, kind: Kind, folder: Path, start: Callable[[], Recipe]
) -> dict[str, Any]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    recipe = start()
    if device.type == "cuda":
        rehearse(side, recipe, folder, device)
    run = {"ours": ours, "theirs": theirs}[side]
    return dict(run(recipe, folder, kind, device, bench.trial))


REHEARSED: set[str] = set()


def rehearse(side: str, recipe: Recipe, folder: Path, device: torch.device) -> None:
    """A few steps of each side, once a process: what a GPU does first takes longer."""
    if side not in REHEARSED:
        REHEARSED.add(side)
        few = replace(
            recipe,
            data=replace(recipe.data, train=recipe.data.validation),
            train=replace(recipe.train, max_steps=8, warmup_steps=2),
            run=replace(recipe.run, out=str(folder / "rehearsal")),
        )
        if side == "ours":
            gf.train(few, restart=True, device=str(device))
        else:
            train_peer(folder / "start", few, device)


def ours(recipe: Recipe, folder: Path, kind: Kind, device: torch.device, trial: bool) -> Any:
    begun = time.perf_counter()
    run = gf.train(recipe, restart=True, device=str(device))
    seconds = time.perf_counter() - begun
    assert run.finished is not None
    model = gf.load(run.model, device=device)
    verb = model.translate if "multi30k" in kind.recipe else model.summarize
    options = {"split": "none"} if "multi30k" in kind.recipe else {}

    def write(sources: list[str], num_beams: int, **settings: Any) -> list[str]:
        said = verb(
            sources, num_beams=num_beams, batch_size=AT_ONCE * num_beams, **options, **settings
        )
        return [one.text for one in said]

    facts = {"seconds": seconds, "perplexity": run.finished["best"]}
    return facts | judged(write, kind, trial) | about(recipe, device)


def theirs(recipe: Recipe, folder: Path, kind: Kind, device: torch.device, trial: bool) -> Any:
    peer, facts = train_peer(folder / "start", recipe, device)

    def write(sources: list[str], **settings: Any) -> list[str]:
        return peer.write(sources, AT_ONCE, **settings)

    return facts | judged(write, kind, trial) | about(recipe, device)


def about(recipe: Recipe, device: torch.device) -> dict[str, Any]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return {"steps": recipe.train.max_steps, "device": name, "versions": versions}


def judged(write: Callable[..., list[str]], kind: Kind, trial: bool) -> dict[str, Any]:
    """How well it writes of the test texts, cased and as it is, and how long that takes."""
    sources, references = tested(kind.test, 4 if trial else None)
    found: dict[str, Any] = {}
    if len(kind.test) == 1:
        began = time.perf_counter()
        said = write(sources, num_beams=4, max_new_tokens=kind.new_tokens, no_repeat_ngram_size=3)
        found["writing"] = time.perf_counter() - began
        figures = summary_scores(said, references)
        return found | {one.name: one.value for one in figures} | {"said": said[:5]}
    for way, beams in (("greedy", 1), ("beam", 5)):
        began = time.perf_counter()
        said = write(sources, num_beams=beams, max_new_tokens=kind.new_tokens)
        found[f"writing, {way}"] = time.perf_counter() - began
        for one in translation_scores(said, references):
            found |= {f"{one.name}, {way}": one.value, f"{one.name} is": one.signature}
        lower = translation_scores(said, references, lowercase=True)
        found[f"BLEU, {way}, lowercase"] = lower[0].value
    return found | {"said": said[:5]}


def language_model(bench: Bench) -> dict[str, Any]:
    for group in ("lm", "summaries"):
        prepare(bench, group)
    running_text(bench)
    settings = (*TRIAL, *FRESH, "model.context_length=640") if bench.trial else ()
    begun = time.perf_counter()
    bench.train("summaries-lm", *settings)
    ended, _, _ = bench.run("summaries/lm")
    return {"seconds": time.perf_counter() - begun, "loss": ended["best"]}


# --- Commands ----------------------------------------------------------------------------------


TABLES = {"multi30k": multi30k_table, "summaries": summaries_table}


def try_variants(name: str, trial: bool) -> None:
    """All at once, each in a process of its own; what came out, the best first."""
    group = next(group for group, kinds in KINDS.items() if name in kinds)
    command = [sys.executable, __file__, group, name, "--seeds", "1", "--sides", "ours"]
    command += ["--trial"] if trial else []
    running = [subprocess.Popen([*command, "--variant", one]) for one in VARIANTS]
    for one in running:
        one.wait()
    results = {one: Bench(f"try/{name}, {one}", trial).results for one in VARIANTS}
    found = {one: row["ours 1"] for one, row in results.items() if row}
    figure = "BLEU, beam" if group == "multi30k" else "ROUGE-L"
    for one, row in sorted(found.items(), key=lambda item: -item[1][figure]):
        print(f"{one:>16} {row[figure]:6.2f}  perplexity {row['perplexity']:7.3f}  "
              f"{row['seconds']:6.1f} s")  # fmt: skip


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("what", choices=["gather", *KINDS, "lm", "try", "tables"])
    asked.add_argument("which", nargs="*")
    asked.add_argument("--seeds", type=lambda word: [*map(int, word.split(","))], default=SEEDS)
    asked.add_argument("--sides", type=lambda word: word.split(","), default=list(SIDES))
    asked.add_argument("--set", action="append", default=[], help="section.key=value of the recipe")
    asked.add_argument("--variant", default="", help="one of those that `try` tries")
    asked.add_argument("--trial", action="store_true")
    given = asked.parse_args()
    if given.what == "gather":
        gather(*map(Path, given.which))
    elif given.what == "tables":
        for group, kinds in KINDS.items():
            every = {name: known(RESULTS / f"written-{name}.json") for name in kinds}
            if found := {name: one for name, one in every.items() if one}:
                put({group: TABLES[group](found)})
    elif given.what == "try":
        try_variants(*given.which, given.trial)
    elif given.what == "lm":
        bench = Bench("written-lm", given.trial)
        bench.once("lm", partial(language_model, bench))
    else:
        for name in given.which or KINDS[given.what]:
            kind = KINDS[given.what][name]
            known_as = f"try/{name}, {given.variant}" if given.variant else f"written-{name}"
            bench = Bench(known_as, given.trial)
            prepare(bench, given.what)
            os.chdir(bench.place)
            for seed in given.seeds:
                for named, job in jobs(bench, name, kind, seed, given.variant, given.set).items():
                    if named.split()[0] in given.sides:
                        bench.once(named, job)
            show(TABLES[given.what]({name: bench.results}))


if __name__ == "__main__":
    main()
