"""Language models of five kinds on the same text: perplexity, time per token and context length.

    python bench/language_models.py TEXT          # results in bench/language_models.json
    python bench/language_models.py --table       # prints them as the table of docs/train.md

An n-gram model, an LSTM, a CNN, a memory network and a Transformer predict the next character. The
last tenth of the text is held out, and its first 20,000 characters are scored. Times are CPU times
of one thread: scoring reads the whole text, generating samples one character after another. The
same command continues where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import glassformer as gf
from glassformer.baselines.ngram import NGram
from glassformer.core.score import Score
from glassformer.text.training.train import train as train_tokenizer

RESULTS = Path(__file__).parent / "language_models.json"
HELD_OUT = 20_000
GENERATED = 200
LENGTH = 128  # characters in a training row
MEMORY = 32  # characters that the memory network reads
TRAIN = {"max_steps": 400, "batch_size": 16, "learning_rate": 3e-3, "warmup_ratio": 0.05,
         "save_steps": 0, "eval_steps": 0, "seed": 1}  # fmt: skip
DROPOUTS = {"hidden_dropout_prob": 0.0}
MODELS: dict[str, dict[str, Any]] = {
    "LSTM": {"preset": "lstm", "config": {**DROPOUTS, "embedding_size": 128, "hidden_size": 256,
             "num_hidden_layers": 1}},
    "CNN": {"preset": "cnn", "architecture": "CnnForCausalLM", "config": {
        **DROPOUTS, "hidden_size": 128, "num_hidden_layers": 4, "kernel_size": 3,
        "dilation_growth": 2, "max_position_embeddings": LENGTH}},
    "Transformer (GPT-2)": {"preset": "gpt2", "num_layers": 2, "num_heads": 4, "hidden_size": 128,
                            "context_length": LENGTH, "dropout": 0.0},
}  # fmt: skip


def measure(text: Path) -> None:
    whole = text.read_text("utf-8")
    edge = len(whole) * 9 // 10
    held_out = whole[edge : edge + HELD_OUT]
    tokenizer = train_tokenizer("char", texts=[whole])
    known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"models": {}}
    known |= {"torch": torch.__version__, "text": text.name, "train": TRAIN}
    trainers: dict[str, Callable[[], dict[str, Any]]] = {
        f"{order}-gram": lambda order=order: n_gram(whole[:edge], held_out, tokenizer, order)  # type: ignore[misc]
        for order in (2, 4, 6)
    }
    trainers["memory network"] = lambda: memory_network(whole[:edge], held_out, tokenizer)
    for name, settings in MODELS.items():
        trainers[name] = lambda settings=settings: trained(whole[:edge], held_out, settings)  # type: ignore[misc]
    for name, trainer in trainers.items():
        if name not in known["models"]:
            known["models"][name] = trainer()
            RESULTS.write_text(json.dumps(known, indent=1) + "\n", "utf-8")
            print(name, known["models"][name], flush=True)


def n_gram(text: str, held_out: str, tokenizer: gf.Tokenizer, order: int) -> dict[str, Any]:
    start = time.process_time()
    model = NGram.train(text, tokenizer, order=order)
    training = time.process_time() - start
    return {
        "parameters": model.num_ngrams,
        "context": model.context_length,
        "characters": len(text),
        "training": training,
        **timed(lambda: model.score(held_out), lambda: model.generate(max_new_tokens=GENERATED)),
    }


def trained(text: str, held_out: str, settings: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.txt").write_text(text, "utf-8")
        start = time.process_time()
        run = gf.train(
            {
                "model": settings,
                "tokenizer": {"type": "char"},
                "data": {"train": f"{folder}/train.txt", "sequence_length": LENGTH},
                "objective": {"name": "causal-lm"},
                "train": TRAIN,
                "run": {"out": f"{folder}/run", "tensorboard": False},
            },
            progress=False,
        )
        training = time.process_time() - start
        model = run.load()
        assert model.tokenizer is not None  # read here, before the folder is gone
    context = model.spec.decoder.context_length
    if settings["preset"] == "cnn":
        context = 1 + sum(
            block.dilation * (block.kernel - 1) for block in model.spec.decoder.blocks
        )
    options = {"max_new_tokens": GENERATED, "do_sample": True, "prefix_cache_bytes": 0}
    window = None if settings["preset"] == "lstm" else LENGTH
    return {
        "parameters": model.num_parameters(),
        "context": context,
        "characters": TRAIN["max_steps"] * TRAIN["batch_size"] * LENGTH,
        "training": training,
        **timed(
            lambda: model.score(held_out, window=window),
            lambda: [model.generate(held_out[:1], **{**options, "max_new_tokens": 100})
                     for _ in range(GENERATED // 100)],
        ),
    }  # fmt: skip


def memory_network(text: str, held_out: str, tokenizer: gf.Tokenizer) -> dict[str, Any]:
    """Predicts a character from the last one, the question, and those before, the sentences."""
    torch.manual_seed(1)
    model = gf.create("memory-network", seed=1, vocab_size=tokenizer.size, hidden_size=128,
                      memory_size=MEMORY)  # fmt: skip
    steps, batch = TRAIN["max_steps"], 512
    optimizer = torch.optim.Adam(model.parameters(), TRAIN["learning_rate"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, int(steps))

    def logits(rows: torch.Tensor) -> torch.Tensor:  # [row, MEMORY + 1] -> [row, character]
        found = model(rows[:, -1:], memory_tokens=rows[:, :-1, None]).logits
        assert found is not None
        return found

    start = time.process_time()
    rows = torch.tensor(tokenizer.ids(text)).unfold(0, MEMORY + 2, 1)
    for _ in range(int(steps)):
        chosen = rows[torch.randint(len(rows), (batch,))]
        loss = torch.nn.functional.cross_entropy(logits(chosen[:, :-1]), chosen[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    training = time.process_time() - start
    model.eval()

    @torch.inference_mode()
    def score() -> Score:
        ids = torch.tensor(tokenizer.ids(held_out))
        held = ids.unfold(0, MEMORY + 2, 1)
        found = torch.cat([logits(part[:, :-1]).log_softmax(-1) for part in held.split(1024)])
        return Score(held[:, -1].tolist(), found.gather(1, held[:, -1:])[:, 0].tolist())

    @torch.inference_mode()
    def generate() -> None:
        ids = rows[0, :-1].tolist()
        for _ in range(GENERATED):
            chances = logits(torch.tensor([ids[-MEMORY - 1 :]])).softmax(-1)
            ids.append(int(torch.multinomial(chances[0], 1)))

    return {
        "parameters": model.num_parameters(),
        "context": MEMORY + 1,
        "characters": int(steps) * batch,
        "training": training,
        **timed(score, generate),
    }


def timed(score: Callable[[], Score], generate: Callable[[], Any]) -> dict[str, float]:
    """Measures perplexity, and the CPU time of a character in microseconds: best of three."""
    found = score()
    times = {"scoring": best(score) / len(found.logprobs), "generating": best(generate) / GENERATED}
    return {"perplexity": found.perplexity, **{what: 1e6 * one for what, one in times.items()}}


def best(action: Callable[[], Any]) -> float:
    durations = []
    for _ in range(3):
        start = time.process_time()
        action()
        durations.append(time.process_time() - start)
    return min(durations)


def table() -> None:
    models = json.loads(RESULTS.read_text("utf-8"))["models"]
    print("| model | numbers | context | characters read | training | perplexity "
          "| scoring, µs | generating, µs |")  # fmt: skip
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, one in models.items():
        context = "no limit" if one["context"] is None else f"{one['context']:,}"
        cells = [f"{one['parameters']:,}", context, f"{one['characters']:,}",
                 f"{one['training']:,.0f} s", f"**{one['perplexity']:.2f}**",
                 f"{one['scoring']:,.1f}", f"{one['generating']:,.0f}"]  # fmt: skip
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("text", type=Path, nargs="?")
    asked.add_argument("--table", action="store_true")
    given = asked.parse_args()
    torch.set_num_threads(1)
    if given.text is not None:
        measure(given.text)
    if given.table:
        table()
