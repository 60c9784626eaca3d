"""A working command line for every verb, over small inputs in one folder.

`make_home` writes the inputs. In the words of a command, `{home}` is the prefix of their paths, and
`{out}` the output, where the verb has one.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import typer
from made import make_run
from models import word_tokenizer
from small_models import bert
from whisper_models import voice, write_wav, write_whisper

import glassformer as gf
from glassformer.cli import app
from glassformer.text import train as train_tokenizer

SENTENCES = ("A cat sleeps here.", "The dog is warm.", "A story is slow and dull.")
RECIPE = """\
[model]
preset = "gpt2"
num_layers = 1
num_heads = 1
hidden_size = 8
context_length = 8
[tokenizer]
type = "char"
[data]
train = "corpus.txt"
validation = "valid.txt"
num_workers = 1
[train]
max_steps = 4
batch_size = 2
save_steps = 2
eval_steps = 2
warmup_steps = 1
[run]
out = "trained"
tensorboard = false
"""


@dataclass(frozen=True)
class Command:
    """The words of a command.

    `out` is a free name of the output: its ending decides the format. `offline` is said of a
    command that fails without the network.
    """

    words: str
    out: str = ""
    offline: bool = False

    def line(self, home: str = "", out: str | None = None) -> list[str]:
        """The words with the paths filled in."""
        out = f"{home}{self.out}" if out is None else out
        return [word.format(home=home, out=out) for word in self.words.split()]


COMMANDS = {
    "check": Command("check {home}models/lm"),
    "families": Command("families"),
    "fetch": Command("fetch minilm", offline=True),
    "inspect": Command("inspect {home}models/lm"),
    "lens": Command(
        "lens {home}models/lm {home}corpus.txt --max-steps 1 --max-length 8 --out {out}", "lens"
    ),
    "open": Command("open {home}models/lm --check --port 0"),
    "zoo": Command("zoo"),
    "fill": Command("fill {home}models/filler {home}gaps.txt"),
    "generate": Command(
        "generate {home}models/lm --batch {home}prompts.jsonl --max-new-tokens 2 --out {out}",
        "written.jsonl",
    ),
    "score": Command("score {home}models/lm {home}corpus.txt"),
    "summarize": Command("summarize {home}models/t5 {home}corpus.txt --max-new-tokens 2"),
    "translate": Command("translate {home}models/t5 {home}corpus.txt --max-new-tokens 2"),
    "answer": Command(
        "answer {home}models/answerer --squad {home}squad.json --out {out}", "a.json"
    ),
    "classify": Command("classify {home}models/classifier {home}corpus.txt"),
    "transcribe": Command(
        "transcribe {home}models/whisper {home}sound.wav --beam-size 1 --temperature 0 --out {out}",
        "heard.srt",
    ),
    "tag": Command("tag {home}models/tagger {home}corpus.txt --words"),
    "watch": Command("watch --label label --file {home}days.jsonl --html {out}", "days.html"),
    "embed": Command("embed {home}models/filler --file {home}corpus.txt --out {out}", "v.npy"),
    "index": Command("index {out} --model {home}models/filler --texts {home}notes", "new.index"),
    "search": Command("search {home}notes.index {home}corpus.txt --model {home}models/filler"),
    "evaluate": Command("evaluate {home}models/classifier {home}labels.jsonl --n-resamples 5"),
    "runs": Command("runs {home}runs --plot {out}", "runs.svg"),
    "scaling": Command("scaling {home}runs --plot {out}", "laws.svg"),
    "train": Command("train {home}recipe.toml run.out={out}", "trained"),
    "vectors train": Command(
        "vectors train {home}corpus.txt --out {out} --vector-size 4 --epochs 1 --min-count 1",
        "v.txt",
    ),
    "vectors evaluate": Command("vectors evaluate {home}space.txt --analogies {home}questions.txt"),
    "vectors nearest": Command("vectors nearest {home}space.txt king"),
    "vectors analogy": Command("vectors analogy {home}space.txt man king woman"),
    "vectors convert": Command("vectors convert {home}space.txt {out}", "v.bin"),
}
WRITING = [name for name, command in COMMANDS.items() if command.out]


def verbs(group: Any = None, before: str = "") -> Iterator[str]:
    """The names of all commands, as the registry has them."""
    for name, one in (group or typer.main.get_command(app)).commands.items():
        if hasattr(one, "commands"):
            yield from verbs(one, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def make_home(home: Path) -> Path:
    """Writes everything that the commands read."""
    home.mkdir(parents=True)
    make_models(home / "models")
    lines = [SENTENCES[number % len(SENTENCES)] for number in range(12)]
    write(home / "corpus.txt", *lines)
    write(home / "valid.txt", *SENTENCES)
    write(home / "gaps.txt", "A [MASK] sleeps here.")
    write(home / "prompts.jsonl", '"A cat"', '"The dog"')
    write(home / "recipe.toml", RECIPE.rstrip())
    write(home / "space.txt", "4 2", "man 1 0", "king 1 1", "woman -1 0.2", "queen -1 1")
    write(home / "questions.txt", ": royal", "man king woman queen")
    write(home / "notes/a.txt", *lines)
    write(home / "notes/deep/b.md", *SENTENCES)
    asked = {"id": "1", "question": "Who sleeps?", "answers": [{"text": "cat", "answer_start": 2}]}
    squad = {"data": [{"paragraphs": [{"context": SENTENCES[0], "qas": [asked]}]}]}
    write(home / "squad.json", json.dumps(squad))
    days = [str(date(2026, 1, 1) + timedelta(day)) for day in range(9)]
    rows = [{"date": day, "label": "good", "text": SENTENCES[0]} for day in days]
    write(home / "days.jsonl", *map(json.dumps, rows))
    write(home / "labels.jsonl", *(json.dumps({"text": t, "label": "good"}) for t in SENTENCES))
    gf.open_index(home / "notes.index", str(home / "models/filler"), home / "notes").update()
    for size in (10**4, 10**5):
        for tokens in (10**6, 10**7):
            make_run(home / f"runs/{size}-{tokens}", size, tokens, 2.0 + 100 / size + 10 / tokens)
    write_wav(home / "sound.wav", voice(0.8))
    write(home / "mine.txt", "something of the user's")
    return home


def make_models(folder: Path) -> None:
    tokenizer = train_tokenizer("char", texts=[*SENTENCES, string.ascii_letters])
    sizes = {"n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 16}
    ids = {"bos_token_id": 1, "eos_token_id": 2}
    lm = gf.create("gpt2", tokenizer=tokenizer, vocab_size=tokenizer.size, **ids, **sizes)
    lm.save(folder / "lm", shard_bytes=4000)
    text = " ".join((*SENTENCES, "Who ? . man king"))
    pieces = sorted(set(re.findall(r"\w+|[^\w\s]", text.lower())))
    words = word_tokenizer(folder.parent / "tokenizer", pieces, lowercase=True)
    for name, kind in {
        "filler": "MaskedLM",
        "answerer": "QuestionAnswering",
        "classifier": "SequenceClassification",
        "tagger": "TokenClassification",
    }.items():
        bert(words, kind).save(folder / name)
    ids = {"eos_token_id": 3, "decoder_start_token_id": 0, "pad_token_id": 0}
    sizes = {"d_model": 16, "num_heads": 2, "d_kv": 8, "d_ff": 16, "num_layers": 1}
    t5 = gf.create("t5-small", tokenizer=words, vocab_size=words.size, **sizes, **ids)
    t5.generation_config = {"max_new_tokens": 4, **ids}
    t5.save(folder / "t5")
    write_whisper(folder / "whisper")


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
