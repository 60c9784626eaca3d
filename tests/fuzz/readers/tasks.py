"""What tasks read: settings in config.json, files to learn from, dated texts, batches, pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import glassformer as gf
from glassformer.generate.batch import BatchJob
from glassformer.tasks.monitor.monitor import watch_labels
from glassformer.train.task_recipe import TaskOptions, make_task_recipe
from glassformer.word_vectors.evaluate import analogies, similarities
from glassformer.word_vectors.files import read_vectors
from tests.fuzz.mutate import change_value, dumped
from tests.fuzz.readers import _made
from tests.fuzz.readers.data import all_records
from tests.fuzz.registry import Sample, SilentlyWrongError, reader

# --- settings of tasks in config.json -----------------------------------------------------------

LABELS = ("O", "B-x")
SAVED: dict[str, dict[str, Any]] = {
    "classifier": {
        "classify": {"threshold": {"O": 0.4}, "labels": list(LABELS),
                           "problem_type": "single_label_classification"},
    },
    "tagger": {"tag": {"split": "words", "length": 12}},
    "answerer": {"span": {"threshold": 0.5, "length": 24}},
    "decoder": {
        "text2text": {"separator": [5], "prefix": "to: ", "max_source_length": 16},
        "translation": {"directions": ["de to en"], "target_language": "en", "num_beams": 2},
        "summarization": {"max_length": 12, "length_penalty": 2.0, "prefix": "sum: "},
    },
}  # fmt: skip
KINDS = {
    "classifier": "BertForSequenceClassification",
    "tagger": "BertForTokenClassification",
    "answerer": "BertForQuestionAnswering",
}
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 16, "max_position_embeddings": 32}  # fmt: skip


def use_settings(folder: Path) -> None:
    (kind,) = (path.name for path in folder.iterdir())
    model = gf.load(folder / kind)
    if kind == "classifier":
        model.classify("Time flies.")
    elif kind == "tagger":
        model.tag("Time flies like an arrow.")
    elif kind == "answerer":
        model.answer("What flies?", "Time flies like an arrow.")
    else:
        model.summarize("Time flies.", max_new_tokens=2)
        model.translate("Zeit fliegt.", max_new_tokens=2, check_language=False)


def change_settings(rng: Random, content: bytes) -> bytes:
    """Changes the settings of tasks, and no other key."""
    config = json.loads(content)
    config["task_specific_params"] = change_value(rng, config["task_specific_params"])
    return dumped(config)


@reader("task settings", read=use_settings, mutations={".json": change_settings}, weight=4)
def models_with_settings() -> Iterator[Sample]:
    words = _made.tokenizer("wordpiece", 120)
    for kind, saved in SAVED.items():
        if kind == "decoder":
            model = gf.create("gpt2", seed=1, tokenizer=_made.tokenizer("byte-bpe"), **_made.GPT2)
        else:
            names = {str(number): label for number, label in enumerate(LABELS)}
            model = gf.create(
                "bert-base", seed=1, tokenizer=words, architectures=[KINDS[kind]],
                vocab_size=words.size, id2label=names, **SIZES,
            )  # fmt: skip
        model.config["task_specific_params"] = saved
        files = _made.written(lambda folder, model=model, kind=kind: model.save(folder / kind))
        yield Sample(files, (f"{kind}/config.json",))


# --- files to learn from -------------------------------------------------------------------------

ROWS: dict[str, list[dict[str, Any]]] = {
    "classify": [{"text": f"Text {i}.", "label": "ab"[i % 2]} for i in range(12)],
    "tag": [{"words": ["Anna", "lives"], "tags": ["B-PER", "O"]} for _ in range(4)],
    "answer": [
        {"question": "Where?", "context": "In Paris.", "answers": {"text": ["Paris"],
         "answer_start": [3]}},
    ] * 3,
    "summarize": [{"text": "A long text.", "summary": "A text."} for _ in range(4)],
    "translate": [{"source": "Ein Haus.", "target": "A house."} for _ in range(4)],
}  # fmt: skip


def learn(folder: Path) -> None:
    """Makes the recipe of a task on a file."""
    path = next(path for path in folder.iterdir() if path.is_file())
    verb = path.name.partition(".")[0]
    options = TaskOptions(base=str(folder / "model"), out=str(folder / "run"))
    make_task_recipe(verb, [str(path)], options)


@reader("task rows", read=learn, weight=4)
def files_to_learn_from() -> Iterator[Sample]:
    model = {f"model/{name}": content for name, content in _made.decoder_files().items()}
    for verb, rows in ROWS.items():
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        yield Sample({**model, f"{verb}.jsonl": content}, (f"{verb}.jsonl",))
    for ending, delimiter in (("csv", ","), ("tsv", "\t"), ("txt", ";")):
        lines = [delimiter.join(row.values()) for row in ROWS["classify"]]
        content = f"text{delimiter}label\n{chr(10).join(lines)}\n".encode()
        yield Sample({**model, f"classify.{ending}": content}, (f"classify.{ending}",))


# --- dated texts ---------------------------------------------------------------------------------


def watch_records(folder: Path) -> None:
    watched = watch_labels(all_records(folder / "days.jsonl"), every="day")
    texts = sum(bucket.texts for bucket in watched.shares.buckets.values())
    if watched.shares.buckets and texts < 1:
        raise SilentlyWrongError("a day has no texts")
    watched.svg()
    watched.html()


@reader("dated texts", read=watch_records, weight=2)
def days() -> Iterator[Sample]:
    rows = [{"date": f"2026-01-{day:02}", "label": "good"} for day in range(1, 12)]
    rows += [{"date": 1768000000 + 9e4 * i, "labels": ["good", "bad"]} for i in range(3)]
    rows += [{"date": "2026-02-01T13:30+02:00", "label": None}]
    yield Sample({"days.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()})


# --- batches of prompts --------------------------------------------------------------------------


def write_batch(folder: Path) -> None:
    """Writes the results of a batch that was begun."""
    generator = gf.load(folder / "model").generator
    jobs = BatchJob(folder / "prompts.jsonl", folder / "out.jsonl", {"max_new_tokens": 2}, "model")
    for _ in jobs.run(generator, jobs.plan(generator)):
        pass
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_bytes().splitlines()]
    if [line["line"] for line in lines] != sorted(jobs.lines):
        raise SilentlyWrongError("not every prompt has one result, in order")


@reader("batch of prompts", read=write_batch, weight=3)
def batches() -> Iterator[Sample]:
    prompts: list[Any] = ["Time", {"prompt": "An arrow", "id": 7, "max_new_tokens": 1}]
    prompts += [{"prompt": [5, 6], "do_sample": True, "seed": 3, "top_k": 4, "stop": ["x"]}]
    lines = "".join(json.dumps(prompt) + "\n" for prompt in prompts).encode()

    def write(folder: Path) -> None:
        (folder / "prompts.jsonl").write_bytes(lines)
        _made.decoder().save(folder / "model")
        generator = gf.load(folder / "model").generator
        out = folder / "out.jsonl"
        jobs = BatchJob(folder / "prompts.jsonl", out, {"max_new_tokens": 2}, "model")
        list(jobs.run(generator, jobs.plan(generator)))
        out.write_bytes(out.read_bytes().splitlines(keepends=True)[0])

    yield Sample(_made.written(write), ("prompts.jsonl", "out.jsonl"))


# --- pairs of words ------------------------------------------------------------------------------

SPACE = b"4 2\nman 1 0\nking 1 1\nwoman -1 0.2\nqueen -1 1\n"


def compare_words(folder: Path) -> None:
    known = read_vectors(folder / "space.txt")
    if (folder / "analogies.txt").is_file():
        analogies(known, folder / "analogies.txt")
    else:
        similarities(known, folder / "pairs.txt")


@reader("word pairs", read=compare_words)
def pairs() -> Iterator[Sample]:
    yield Sample({"space.txt": SPACE, "analogies.txt": b": royal\nman king woman queen\n"})
    content = b"# scores\nman\tking\t7.5\nwoman\tqueen\t6\nman\twoman\t3\n"
    yield Sample({"space.txt": SPACE, "pairs.txt": content}, ("pairs.txt",))
