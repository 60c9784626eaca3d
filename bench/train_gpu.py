"""Training steps on one GPU in bfloat16, beside nanoGPT and transformers, all compiled, one after
the other in one run:

    python bench/train_gpu.py [gpt2] [bert] [translation]

gpt2: 124M parameters, without biases as nanoGPT has it, 32 x 1,024 tokens, beside nanoGPT
(github:karpathy/nanoGPT, whose model.py is looked for in peers/nanogpt/). bert: the base size,
masked language model, 64 x 512. translation: the base Transformer of 2017, 128 pairs of 64 tokens.
Ours runs whole steps of a
recipe, its data included; the others take a batch that lies on the GPU. Operations are counted as
nanoGPT does, 6 a weight and token, and 12 * layers * width * length a token for attention, and
compared with the rate of a large matrix product, which is measured first.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import write_gpu

from glassformer.train.distributed import find_worker
from glassformer.train.recipe import read_recipe
from glassformer.train.trainer import Trainer, with_objective_defaults

ROOT = Path(__file__).parent.parent
RESULTS: list[dict[str, Any]] = []
WORDS = 32_000
Step = Callable[[], Any]


def timed(step: Step, warm: int = 8, rounds: int = 5, steps: int = 8) -> float:
    """Seconds of a step: the median of some rounds of steps that, as in training, don't wait for
    each other."""
    for _ in range(warm):
        step()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / steps)
    return statistics.median(times)


def ceiling() -> float:
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    rate = 2 * 8192**3 / timed(lambda: a @ a)
    print(f"a large product: {rate / 1e12:.0f} TFLOP/s", flush=True)
    return rate


def put(what: str, who: str, step: Step, tokens: int, operations: float, most: float) -> None:
    """`operations` of a token."""
    torch.cuda.reset_peak_memory_stats()
    rate = tokens / timed(step)
    memory = torch.cuda.max_memory_allocated() / 2**30
    done = rate * operations
    print(f"{what:12} {who:14} {rate:10,.0f} tokens/s  {done / 1e12:5.0f} TFLOP/s "
          f"({done / most:.0%})  {memory:5.1f} GiB", flush=True)  # fmt: skip
    row = {"what": what, "who": who, "tokens/s": round(rate), "GiB": round(memory, 2)}
    RESULTS.append(row | {"TFLOP/s": round(done / 1e12), "of the ceiling": round(done / most, 3)})
    write_gpu(__file__, RESULTS, "what")
    gc.collect()
    torch.cuda.empty_cache()


def ours(folder: Path, recipe: dict[str, Any]) -> Step:
    recipe["train"] = {"max_steps": 10_000, "learning_rate": 6e-4, "precision": "bfloat16",
                       "compile": True, **recipe["train"]}  # fmt: skip
    recipe["run"] = {"out": str(folder / "run")}
    complete = with_objective_defaults(read_recipe(recipe))
    loop = Trainer.from_recipe(complete, find_worker("cuda"), folder / "run").loop
    return loop.train_step


def texts(folder: Path, name: str, lines: int, words: int, seed: int) -> Path:
    """Made-up words of a vocabulary that a word tokenizer finds again."""
    chance = random.Random(seed)
    path = folder / name
    with path.open("w", encoding="utf-8") as out:
        for _ in range(lines):
            out.write(" ".join(f"w{chance.randrange(WORDS)}" for _ in range(words)) + "\n")
    return path


def optimized(model: Any) -> tuple[Any, torch.optim.Optimizer]:
    model = model.to("cuda").train()
    return torch.compile(model), torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)


def plain_step(compiled: Any, optimizer: torch.optim.Optimizer, given: dict[str, Any]) -> Step:
    def go() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            out = compiled(**given)
        loss = out[1] if isinstance(out, tuple) else out.loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return go


def gpt2(folder: Path, most: float) -> None:
    rows, length, layers, width = 32, 1024, 12, 768
    operations = 6 * 124e6 + 12 * layers * width * length
    tokens = rows * length
    text = texts(folder, "train.txt", 800, 500, 1)
    shape = {"vocab_size": 50304, "bias": False}
    recipe = {
        "model": {"preset": "gpt2", "dropout": 0.0, "config": shape},
        "tokenizer": {"type": "word", "vocab_size": WORDS},
        "data": {"train": str(text)},
        "objective": {"name": "causal-lm"},
        "train": {"batch_size": rows},
    }
    put("gpt2", "glassformer", ours(folder, recipe), tokens, operations, most)
    if not (ROOT / "peers" / "nanogpt" / "model.py").is_file():
        sys.exit("nanoGPT's model.py is not in peers/nanogpt/")
    sys.path.insert(0, str(ROOT / "peers" / "nanogpt"))
    from model import GPT, GPTConfig

    sizes = {"n_layer": layers, "n_head": 12, "n_embd": width, "block_size": length}
    peer = GPT(GPTConfig(vocab_size=50304, dropout=0.0, bias=False, **sizes)).to("cuda")
    optimizer = peer.configure_optimizers(0.1, 6e-4, (0.9, 0.95), "cuda")
    x = torch.randint(0, 50257, (rows, length), device="cuda")
    step = plain_step(torch.compile(peer), optimizer, {"idx": x, "targets": x})
    put("gpt2", "nanoGPT", step, tokens, operations, most)


def bert(folder: Path, most: float) -> None:
    from transformers import BertConfig, BertForMaskedLM

    rows, length = 64, 512
    operations = 6 * 110e6 + 12 * 12 * 768 * length
    text = texts(folder, "train.txt", 800, 500, 2)
    recipe = {
        "model": {"preset": "bert-base", "architecture": "BertForMaskedLM", "dropout": 0.0},
        "tokenizer": {"type": "wordpiece", "vocab_size": WORDS},
        "data": {"train": str(text)},
        "objective": {"name": "masked-lm"},
        "train": {"batch_size": rows},
    }
    put("bert", "glassformer", ours(folder, recipe), rows * length, operations, most)
    sizes = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(vocab_size=WORDS, **sizes)
    peer = BertForMaskedLM._from_config(config, attn_implementation="sdpa")
    x = torch.randint(5, WORDS, (rows, length), device="cuda")
    asked = torch.where(torch.rand(x.shape, device="cuda") < 0.15, x, -100)
    given = {"input_ids": x, "attention_mask": torch.ones_like(x), "labels": asked}
    step = plain_step(*optimized(peer), given)
    put("bert", "transformers", step, rows * length, operations, most)


def translation(folder: Path, most: float) -> None:
    from transformers import MarianConfig, MarianMTModel

    rows, length = 128, 64
    operations = 6 * 60e6 / 2  # a token passes one of the two stacks
    pairs = [texts(folder, f"train.{side}", 4000, length - 1, side) for side in (3, 4)]
    recipe = {
        "model": {"preset": "transformer-base", "dropout": 0.0},
        "tokenizer": {"type": "word", "vocab_size": WORDS},
        "data": {"format": "parallel", "train": [str(path) for path in pairs]},
        "objective": {"name": "sequence-to-sequence", "label_smoothing": 0.1},
        "train": {"batch_size": rows},
    }
    tokens = 2 * rows * length
    put("translation", "glassformer", ours(folder, recipe), tokens, operations, most)
    sizes = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 2048,
             "decoder_ffn_dim": 2048, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
             "vocab_size": WORDS, "decoder_vocab_size": WORDS, "dropout": 0.0,
             "pad_token_id": WORDS - 1, "decoder_start_token_id": 0}  # fmt: skip
    peer = MarianMTModel._from_config(MarianConfig(**sizes), attn_implementation="sdpa")
    x = torch.randint(5, WORDS - 5, (rows, length), device="cuda")
    step = plain_step(*optimized(peer), {"input_ids": x, "labels": x})
    put("translation", "transformers", step, tokens, operations, most)


def main() -> None:
    torch.set_float32_matmul_precision("high")
    asked = sys.argv[1:] or ["gpt2", "bert", "translation"]
    most = ceiling()
    for name, run in {"gpt2": gpt2, "bert": bert, "translation": translation}.items():
        if name in asked:
            with tempfile.TemporaryDirectory() as folder:
                run(Path(folder), most)


if __name__ == "__main__":
    main()
