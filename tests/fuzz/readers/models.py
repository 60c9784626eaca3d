"""What lies beside a model's weights: adapters, generation settings, lenses, training runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

import glassformer as gf
from glassformer import adapters
from glassformer.adapters.base_model import read_description
from glassformer.errors import InputError
from glassformer.inside.lens.train_tuned_lens import tune_lens
from glassformer.inside.lens.tuned_lens import TunedLens
from glassformer.plotting import draw
from glassformer.storage.folders import MANIFEST, PENDING
from glassformer.train.compare_runs import curves, find_runs
from glassformer.train.saved_steps import snapshots
from glassformer.train.scaling_laws import fit_scaling
from glassformer.train.trainer import train
from tests.fuzz.readers import _made
from tests.fuzz.readers.weights import change_safetensors
from tests.fuzz.registry import Sample, SilentlyWrongError, reader

CHANGES = {".safetensors": change_safetensors}


def read_adapter(folder: Path) -> None:
    model = gf.create("gpt2", seed=1, **_made.GPT2)
    read_description(folder)
    model.adapters.load(folder)
    with torch.no_grad():
        logits = model(torch.arange(5)[None]).logits
    if logits.shape != (1, 5, _made.GPT2["vocab_size"]):
        raise SilentlyWrongError(f"logits of {tuple(logits.shape)}")


@reader("adapters", read=read_adapter, mutations=CHANGES, weight=4)
def adapter_folders() -> Iterator[Sample]:
    kinds: dict[str, dict[str, Any]] = {
        "lora": {"rank": 2}, "adalora": {"rank": 2, "target_rank": 1}, "prefix": {},
        "prompt": {}, "bottleneck": {},
    }  # fmt: skip
    for kind, options in kinds.items():
        model = gf.create("gpt2", seed=1, **_made.GPT2)
        model.adapters.add(adapters.make(kind, options, 10), seed=1)
        files = _made.written(model.adapters.save)
        wanted = tuple(name for name in files if name.endswith((".json", ".safetensors")))
        yield Sample(files, wanted)


def read_generation(folder: Path) -> None:
    model = gf.load(folder)
    output = model.generate("Time flies", max_new_tokens=3)
    ids = output.tokens
    if not all(0 <= one < _made.GPT2["vocab_size"] for one in ids):
        raise SilentlyWrongError(f"the tokens {ids}")


@reader("generation_config", read=read_generation, weight=4)
def generation_configs() -> Iterator[Sample]:
    sampled = {"do_sample": True, "temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1,
               "typical_p": 0.9, "repetition_penalty": 1.2, "eos_token_id": [0, 5],
               "pad_token_id": 0, "bos_token_id": 0, "max_new_tokens": 4}  # fmt: skip
    beams = {"num_beams": 2, "length_penalty": 0.8, "early_stopping": True, "max_length": 12,
             "no_repeat_ngram_size": 2, "bad_words_ids": [[5], [6, 7]], "suppress_tokens": [9],
             "forced_bos_token_id": 4, "num_return_sequences": 1, "num_beam_groups": 1,
             "begin_suppress_tokens": [3], "min_length": 2}  # fmt: skip
    for settings in (sampled, beams):
        files = {**_made.decoder_files(), "generation_config.json": json.dumps(settings).encode()}
        yield Sample(files, ("generation_config.json",))


def read_lens(folder: Path) -> None:
    TunedLens.load(folder)


@reader("tuned lens", read=read_lens, mutations=CHANGES)
def lenses() -> Iterator[Sample]:
    def write(folder: Path) -> None:
        tune_lens(_made.decoder(), _made.TEXTS, max_steps=1).save(folder)

    yield Sample(_made.written(write))


TUNED = {"max_steps": 2, "tokens_per_batch": 64, "max_length": 8}


def go_on_tuning(folder: Path) -> None:
    """Goes on with a lens that was begun."""
    lens = tune_lens(_made.decoder(), _made.TEXTS[:4], folder=folder, **TUNED)
    if lens.facts.steps != TUNED["max_steps"]:
        raise SilentlyWrongError(f"the lens was trained for {lens.facts.steps} steps")


@reader("begun lens", read=go_on_tuning, mutations=CHANGES)
def begun_lenses() -> Iterator[Sample]:
    def write(folder: Path) -> None:
        def stop(*told: Any) -> None:
            raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            tune_lens(_made.decoder(), _made.TEXTS[:4], folder=folder, progress=stop, **TUNED)

    yield Sample(_made.written(write))


def complete(folder: Path) -> None:
    """Loads a model whose last save was committed and not completed."""
    (folder / "mine.txt").write_bytes(b"mine")
    gf.load(folder)
    if (folder / "mine.txt").read_bytes() != b"mine":
        raise SilentlyWrongError("a file of the user's has changed")


@reader("unfinished save", read=complete, weight=2)
def unfinished_saves() -> Iterator[Sample]:
    manifest = {"keys": ["model.safetensors"], "remove": ["model-00001-of-00002.safetensors"]}
    files = {f"{PENDING}/{name}": content for name, content in _made.decoder_files().items()}
    files[f"{PENDING}/{MANIFEST}"] = json.dumps(manifest).encode()
    files |= {"model-00001-of-00002.safetensors": b"old", "config.json": b"{}"}
    yield Sample(files, (f"{PENDING}/{MANIFEST}",))


RECIPE = """
[model]
preset = "gpt2"
num_layers = 1
num_heads = 2
hidden_size = 8
context_length = 16
[tokenizer]
type = "char"
[data]
train = ["a.txt"]
validation = ["a.txt"]
sequence_length = 8
num_workers = 1
[train]
max_steps = 2
batch_size = 2
save_steps = 1
eval_steps = 1
[run]
out = "run"
tensorboard = false
"""


def resume(folder: Path) -> None:
    """Resumes a run after its last checkpoint."""
    os.chdir(folder)  # the run stores paths relative to it
    run = train(Path("recipe.toml"))
    if run.step != 2:
        raise SilentlyWrongError(f"the run ended after step {run.step}")


@reader("run folder", read=resume, mutations=CHANGES, weight=2)
def runs() -> Iterator[Sample]:
    def write(folder: Path) -> None:
        (folder / "a.txt").write_text("".join(f"{line}\n" for line in _made.TEXTS * 4))
        (folder / "recipe.toml").write_text(RECIPE)
        os.chdir(folder)
        train(Path("recipe.toml"))
        (folder / "run" / "finished.json").unlink()

    files = _made.written(write)
    manifest = json.loads(files["run/run.json"])
    manifest["files"] = {key: [] for key in manifest["files"]}  # without digests, all are read
    files["run/run.json"] = json.dumps(manifest).encode()
    kinds = (".json", ".jsonl", ".safetensors", ".bin", ".offsets", ".toml")
    wanted = tuple(name for name in files if name.startswith("run/") and name.endswith(kinds))
    yield Sample(files, wanted)


def compare(folder: Path) -> None:
    """Reads a run as `runs`, `scaling`, `load` and the page do."""
    (found,) = find_runs([str(folder / "run")])
    found.plain()
    draw([curves([found], ["run"])])
    with suppress(InputError):  # a law needs several runs
        fit_scaling([found], ["run"])
    found.run.data_summary  # noqa: B018 - reads the file
    for snapshot in snapshots(folder / "run"):
        snapshot.loss  # noqa: B018 - reads the log
    gf.load(folder / "run")


@reader("compared runs", read=compare, weight=3)
def compared_runs() -> Iterator[Sample]:
    files = next(runs()).files
    finished = {"step": 2, "tokens": 32, "best": 4.0, "best_step": 2, "stopped": False}
    for more in ({"run/finished.json": json.dumps(finished).encode()}, {}):
        names = ("metrics.jsonl", "about.json", "data_summary.json", "recipe.toml", "run.json")
        kept = {name: content for name, content in files.items() if more or "model/" not in name}
        wanted = tuple(f"run/{name}" for name in names if f"run/{name}" in kept)
        notes = tuple(name for name in kept if name.endswith("notes.json"))
        yield Sample(kept | more, wanted + notes + tuple(more))
