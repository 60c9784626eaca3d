"""Training data: how many tokens per second are made, and whether they hold a GPU back.

    python bench/feed.py                           # on a CPU: the batches alone, made by one thread
    python bench/feed.py --before ../older         # and those of another checkout
    python bench/feed.py --device cuda [NAME ...]  # whole training steps, compiled

Every objective has a small model (8 layers of 256) and made-up data of its own. With `--device
cuda`, `training` is the rate of training steps on new batches and `repeated` the rate on one batch
that lies on the GPU; a ratio of 1 means that the GPU never waits for data. `--text` and `--pairs`
(a table of two columns) add an encoder and a translation model on real text; `large` measures when
the first batch of 500 MB of it is there. The results are written to bench/feed.json, or to the file
that `--out` names.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import glassformer as gf
from glassformer.text import Tokenizer, train
from glassformer.train.distributed import find_worker
from glassformer.train.recipe import read_recipe
from glassformer.train.trainer import Trainer, with_objective_defaults

LENGTH, ROWS = 128, 256
WORDS = 6000
BERT_ROLES = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
BART_ROLES = {"bos": "<s>", "cls": "<s>", "pad": "<pad>", "eos": "</s>", "sep": "</s>",
              "unk": "<unk>", "mask": "<mask>"}  # fmt: skip
XLNET_ROLES = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "cls": "<cls>", "sep": "<sep>",
               "pad": "<pad>", "mask": "<mask>"}  # fmt: skip
T5_ROLES = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
TOKENIZERS: dict[str, tuple[str, dict[str, str]]] = {
    "bert": ("wordpiece", BERT_ROLES),
    "bart": ("byte-bpe", BART_ROLES),
    "xlnet": ("unigram", XLNET_ROLES),
    "t5": ("unigram", T5_ROLES),
}
BERT = {"num_hidden_layers": 8, "hidden_size": 256, "num_attention_heads": 4,
        "intermediate_size": 1024, "max_position_embeddings": 512}  # fmt: skip
GPT2 = {"n_layer": 8, "n_embd": 256, "n_head": 4, "n_positions": 512}
T5 = {"d_model": 256, "d_kv": 64, "d_ff": 1024, "num_layers": 4, "num_decoder_layers": 4,
      "num_heads": 4}  # fmt: skip
BART = {"d_model": 256, "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 1024, "decoder_ffn_dim": 1024,
        "max_position_embeddings": 512}  # fmt: skip
XLNET = {"d_model": 256, "n_layer": 8, "n_head": 4, "d_inner": 1024}
LABELS = {"id2label": {"0": "bad", "1": "good"}, "label2id": {"bad": 0, "good": 1}}
MODELS: dict[str, tuple[str, str | None, str, dict[str, Any]]] = {
    "causal-lm": ("gpt2", None, "bart", GPT2),
    "masked-lm": ("bert-base", "BertForMaskedLM", "bert", BERT),
    "next-sentence": ("bert-base", "BertForPreTraining", "bert", BERT),
    "sentence-order": ("bert-base", "BertForPreTraining", "bert", BERT),
    "replaced-token": ("electra-small", None, "bert", {**BERT, "embedding_size": 128}),
    "translation-lm": ("bert-base", "BertForMaskedLM", "bert", BERT),
    "span-corruption": ("t5-small", None, "t5", T5),
    "denoising": ("bart-base", "BartForConditionalGeneration", "bart", BART),
    "permutation-lm": ("xlnet-base", "XLNetLMHeadModel", "xlnet", XLNET),
    "classification": ("bert-base", "BertForSequenceClassification", "bert", {**BERT, **LABELS}),
    "regression": (
        "bert-base",
        "BertForSequenceClassification",
        "bert",
        {**BERT, "id2label": {"0": "value"}, "label2id": {"value": 0}},
    ),
    "tagging": ("bert-base", "BertForTokenClassification", "bert", {**BERT, **LABELS}),
    "span": ("bert-base", "BertForQuestionAnswering", "bert", BERT),
    "multiple-choice": ("bert-base", "BertForMultipleChoice", "bert", BERT),
    "contrastive": ("bert-base", "BertModel", "bert", BERT),
    "sequence-to-sequence": ("bart-base", "BartForConditionalGeneration", "bart", BART),
    "continuation": ("gpt2", None, "bart", GPT2),
    "distillation": ("bert-base", "BertForMaskedLM", "bert", BERT),
    "mixture": ("bert-base", "BertForMaskedLM", "bert", BERT),
}
Record = dict[str, Any]
DOCUMENTS = ("causal-lm", "masked-lm", "next-sentence", "sentence-order", "replaced-token",
             "span-corruption", "denoising", "permutation-lm", "distillation")  # fmt: skip
REAL = ("encoder", "translation", "large")
LARGE = 500_000_000  # bytes of text that "large" prepares
OPTIONS: dict[str, Record] = {
    "sequence-to-sequence": {"max_source_length": LENGTH, "max_target_length": LENGTH},
    "continuation": {"max_length": LENGTH},
    "distillation": {"task": "masked-lm", "task_options": {"max_length": LENGTH}},
}


class Writer:
    """Makes up sentences of a vocabulary in which, as in a language, few words are frequent."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        letters = "etaoinshrdlcumwfgypbvk"
        self.words = ["".join(self.random.choices(letters, k=2 + i % 8)) for i in range(WORDS)]
        self.weights = [1 / (i + 3) for i in range(WORDS)]

    def list(self, least: int = 5, most: int = 24) -> list[str]:
        count = self.random.randint(least, most)
        return self.random.choices(self.words, self.weights, k=count)

    def sentence(self, least: int = 5, most: int = 24) -> str:
        return " ".join(self.list(least, most)) + "."

    def text(self, sentences: int = 4) -> str:
        return " ".join(self.sentence() for _ in range(sentences))


def records(name: str, count: int = 6000) -> Iterator[Record]:
    """Yields made-up records for an objective."""
    write, draw = Writer(1), random.Random(2)
    for number in range(count):
        label = draw.choice(["bad", "good"])
        if name == "classification":
            yield {"text": write.text(), "label": label}
        elif name == "regression":
            yield {"text": write.text(), "value": draw.random()}
        elif name == "tagging":
            words = write.list(20, 90)
            yield {"words": words, "tags": [draw.choice(["bad", "good"]) for _ in words]}
        elif name == "span":
            context = write.text(5)
            start = context.index(" ") + 1
            answer = context[start : context.index(" ", start)]
            found = [{"text": answer, "answer_start": start}]
            yield {"question": write.sentence(), "context": context, "answers": found}
        elif name == "multiple-choice":
            choices = [write.sentence() for _ in range(4)]
            yield {"question": write.sentence(), "choices": choices, "label": number % 4}
        elif name == "contrastive":
            yield {"text": write.sentence(), "positive": write.sentence()}
        elif name == "mixture" and number % 2:
            own = {"words": write.list(20, 90)}
            tags = [draw.choice(["bad", "good"]) for _ in own["words"]]
            yield {**own, "tags": tags, "objective": "tagging"}
        elif name == "mixture":
            yield {"text": write.text(6), "objective": "masked-lm"}
        else:
            yield {"source": write.sentence(), "target": write.sentence()}


def prepare(name: str, folder: Path, given: argparse.Namespace) -> Record:
    """Writes the data and the model of an objective, if they are not there; returns the recipe."""
    out = folder / name
    text, table = out / "train.txt", out / "train.jsonl"
    if not (out / "ready").exists() and name != "large":
        out.mkdir(parents=True, exist_ok=True)
        write = Writer(0)
        if name in DOCUMENTS:
            blocks = ("\n".join(write.sentence() for _ in range(20)) for _ in range(1500))
            text.write_text("\n\n".join(blocks), "utf-8")
        elif name not in REAL:
            with table.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(record) + "\n" for record in records(name))
        samples = [write.text() for _ in range(1500)]
        if name == "encoder":
            samples = Path(given.text).read_text("utf-8")[:20_000_000].split("\n")
        elif name == "translation":
            lines = Path(given.pairs).read_text("utf-8").split("\n")
            samples = [part for line in lines for part in line.split("\t")]
            columns = ("source\ttarget\n", *(line + "\n" for line in lines if "\t" in line))
            (out / "pairs.tsv").write_text("".join(columns), "utf-8")
        make_model(name, samples, out / "model")
        (out / "ready").touch()
    model: Record = {"base": str(out / "model")}
    data: Record = {"train": str(table), "sequence_length": LENGTH}
    if name in DOCUMENTS:
        data |= {"train": str(text), "document_boundary": "blank-line"}
    objective: Any = {"name": name, **OPTIONS.get(name, {})}
    batch = {"batch_size": ROWS}
    if name == "encoder":
        data |= {"train": given.text, "document_boundary": "blank-line"}
        objective = {"name": "masked-lm"}
    elif name == "large":
        model = prepare("encoder", folder, given)["model"]
        repeated, size = out / "large.txt", Path(given.text).stat().st_size
        out.mkdir(parents=True, exist_ok=True)
        if not repeated.exists():
            repeated.write_bytes(Path(given.text).read_bytes() * -(-LARGE // size))
        data |= {"train": str(repeated), "document_boundary": "blank-line"}
        objective = {"name": "masked-lm"}
    elif name == "translation":
        data = {"train": str(out / "pairs.tsv"), "format": "tsv", "quoting": False}
        data |= {"batching": "bucket", "tokens_per_batch": 16384, "max_batch_shapes": 4}
        objective = {"name": "sequence-to-sequence", **OPTIONS["sequence-to-sequence"]}
    elif name == "mixture":
        objective = [{"name": "masked-lm"}, {"name": "tagging", "labels": ["bad", "good"]}]
    elif name in ("sequence-to-sequence", "contrastive"):
        batch = {"batch_size": 512}
    elif name == "multiple-choice":
        batch = {"batch_size": 64}
    elif name == "distillation":
        objective["teacher"] = str(out / "model")
    return {
        "model": model,
        "data": data | {"cache": str(out / "cache")},
        "objective": objective,
        "train": {"max_steps": 100_000, "learning_rate": 1e-4, **batch},
        "run": {"out": str(out / "run")},
    }


def make_model(name: str, samples: list[str], out: Path) -> None:
    known = {"encoder": "masked-lm", "translation": "sequence-to-sequence"}
    preset, architecture, kind, sizes = MODELS[known.get(name, name)]
    tokenizer = make_tokenizer(kind, samples, 20_000 if name in REAL else 8_000)
    special = tokenizer.special
    ids = {"vocab_size": (tokenizer.size + 127) // 64 * 64, "pad_token_id": special["pad"]}
    if kind in ("bart", "t5"):
        ids |= {"eos_token_id": special["eos"], "bos_token_id": special.get("bos")}
        ids["decoder_start_token_id"] = special["eos" if kind == "bart" else "pad"]
    named = {} if architecture is None else {"architectures": [architecture]}
    gf.create(preset, tokenizer=tokenizer, **sizes, **ids, **named).save(out)


def make_tokenizer(kind: str, samples: list[str], size: int) -> Tokenizer:
    algorithm, roles = TOKENIZERS[kind]
    options: Record = {"add_eos": True} if kind == "t5" else {}
    tokenizer = train(algorithm, texts=samples, vocab_size=size, special_tokens=roles, **options)
    if kind == "t5":
        names = [f"<extra_id_{number}>" for number in range(100)]
        tokenizer._backend.vocabulary.add_special_tokens(names)
    return tokenizer


def rate(step: Callable[[int], int], seconds: float, wait: Callable[[], None]) -> float:
    """Returns tokens per second; `step` returns the tokens of a numbered step."""
    wait()
    begin, tokens, number = time.perf_counter(), 0, 0
    while time.perf_counter() - begin < seconds:
        for _ in range(5):
            tokens += step(number)
            number += 1
        if number % 50 == 0:
            wait()
    wait()
    return tokens / (time.perf_counter() - begin)


def measure(name: str, given: argparse.Namespace) -> Record:
    """Measures one objective in this process."""
    recipe = prepare(name, Path(given.folder), given)
    on_gpu = given.device == "cuda"
    recipe["train"] |= {"compile": given.compile} if on_gpu else {}
    recipe["train"] |= {"precision": "bfloat16"} if on_gpu else {}
    torch.set_float32_matmul_precision("high")
    begin = time.perf_counter()
    complete = with_objective_defaults(read_recipe(recipe))
    loop = Trainer.from_recipe(complete, find_worker(given.device), Path(recipe["run"]["out"])).loop
    row: Record = {"objective": name, "prepared s": round(time.perf_counter() - begin, 1)}
    loop.data.batches(0)
    row["first batch s"] = round(time.perf_counter() - begin, 1)

    def feed(number: int) -> int:
        return sum(batch.tokens for batch in loop.data.batches(number))

    for number in range(30):
        feed(number)
    with alone(given):
        speed = rate(lambda number: feed(30 + number), given.seconds, lambda: None)
        row["feed"] = round(speed)
    if on_gpu:
        row |= train_rates(loop, given)
    loop.data.close()
    return row


def train_rates(loop: Any, given: argparse.Namespace) -> Record:
    """Measures training steps on new batches and on one batch that is repeated."""
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    loop.train_step()
    torch.cuda.synchronize()
    row: Record = {"first step s": round(time.perf_counter() - begin, 1)}
    shapes: set[Any] = set()
    given_batches = loop.data.batches

    def noted(step: int) -> Any:
        batches = given_batches(step)
        for each in batches:
            tensors = (*each.inputs.items(), *each.targets.items())
            shapes.add(tuple((key, tuple(tensor.shape)) for key, tensor in tensors))
        return batches

    loop.data.batches = noted
    reached = 0
    while time.perf_counter() - begin < given.minute:  # until all shapes are compiled
        before = loop.state.tokens
        now = time.perf_counter()
        loop.train_step()
        torch.cuda.synchronize()
        slow = time.perf_counter() - now > 1
        reached = 0 if slow else reached + 1
        if reached >= 200:
            break
        assert loop.state.tokens > before
    row["warm s"] = round(time.perf_counter() - begin, 1)
    row["steps until warm"] = loop.state.step

    def step(_: int) -> int:
        before = int(loop.state.tokens)
        loop.train_step()
        return int(loop.state.tokens) - before

    with alone(given):
        row["training"] = round(rate(step, given.seconds, torch.cuda.synchronize))
        row["shapes"] = len(shapes)
        moved = [loop.worker.to_device(batch) for batch in given_batches(loop.state.step)]
        loop.data.batches = lambda step: moved
        loop.worker.__dict__["to_device"] = lambda batch: batch
        for number in range(20):
            step(number)
        row["repeated"] = round(rate(step, given.seconds, torch.cuda.synchronize))
    row["ratio"] = round(row["training"] / row["repeated"], 3)
    row["GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    from torch._dynamo.utils import counters

    row["compiled graphs"] = counters["stats"].get("unique_graphs", 0)
    return row


@contextmanager
def alone(given: argparse.Namespace) -> Iterator[None]:
    """Waits until no other process of this benchmark measures."""
    with (Path(given.folder) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ask(name: str, given: argparse.Namespace, *more: str, tree: str | None = None) -> Record:
    """Measures in a process of its own, which cannot take more than `--limit` seconds."""
    words = [sys.executable, __file__, name, "--one", "--folder", given.folder]
    for option in ("device", "seconds", "minute", "text", "pairs", "compile"):
        value = getattr(given, option)
        if value is not None and option != "compile":
            words += [f"--{option}", str(value)]
    words += [] if given.compile else ["--eager"]
    root = tree or str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root}
    try:
        done = subprocess.run(
            [*words, *more], env=environment, timeout=given.limit, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return {"objective": name, "error": f"took more than {given.limit} s"}
    found = [line for line in done.stdout.splitlines() if line.startswith('{"objective"')]
    if not found:
        return {"objective": name, "error": (done.stderr.strip() or "no output")[-1500:]}
    row: Record = json.loads(found[-1])
    return row


def compare(name: str, given: argparse.Namespace) -> Record:
    row = ask(name, given)
    if given.before is not None:
        before = ask(name, given, "--device", "cpu", tree=given.before)
        row["before"] = before.get("feed", before.get("error"))
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="objectives; all without any")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--before", help="another checkout, whose batches are made, too")
    parser.add_argument("--text", help="a text file for the encoder")
    parser.add_argument("--pairs", help="a table of two columns for the translation model")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--minute", type=float, default=60.0, help="seconds at most to get warm")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds of an objective")
    parser.add_argument("--jobs", type=int, default=1, help="processes that get warm at once")
    parser.add_argument("--folder", default="/tmp/glassformer-feed")
    parser.add_argument("--eager", dest="compile", action="store_false", help="do not compile")
    parser.add_argument("--list", action="store_true", help="print the names of all objectives")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", default=str(Path(__file__).with_suffix(".json")))
    given = parser.parse_args()
    Path(given.folder).mkdir(parents=True, exist_ok=True)
    if given.list:
        print(*MODELS)
        return
    if given.one:
        print(json.dumps(measure(given.names[0], given)), flush=True)
        return
    real = [name for name, file in zip(REAL, (given.text, given.pairs), strict=False) if file]
    names = given.names or [*real, *MODELS]
    gpu = {"gpu": torch.cuda.get_device_name()} if given.device == "cuda" else {}
    machine = {"cores": os.cpu_count(), "torch": torch.__version__, **gpu}
    rows: list[Record] = []

    def note(row: Record) -> None:  # after each, because a run may be ended early
        rows.append(row)
        rows.sort(key=lambda row: names.index(row["objective"]))
        written = json.dumps({"machine": machine, "results": rows}, indent=1)
        Path(given.out).write_text(written + "\n", "utf-8")

    for name in names:
        if name in REAL:  # these undisturbed by others
            note(compare(name, given))
    others = [name for name in names if name not in REAL]
    with ThreadPoolExecutor(given.jobs) as pool:
        for row in pool.map(lambda name: compare(name, given), others):
            note(row)


if __name__ == "__main__":
    main()
