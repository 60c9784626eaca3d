"""Generation on one GPU, bfloat16, 32 tokens in and 256 out, beside gpt-fast's model in one run.
Ours is timed whole, with reading the prompts; gpt-fast's steps alone.

gpt-fast's model.py (github:meta-pytorch/gpt-fast) is looked for in peers/gptfast/. A step has two
floors: the bytes that it reads (weights, and keys and values of a text in the middle) over the rate
of a device copy, and its operations over the rate of a large matrix product; both rates are
measured first.

    python bench/generate_gpu.py [gpt2] [llama] [--rows=1,64] [--no-peers]
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from timing import write_gpu

import glassformer as gf

ROOT = Path(__file__).parent.parent
LLAMA = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "head_dim": 64,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
         "max_position_embeddings": 4096, "tie_word_embeddings": True}  # fmt: skip
RESULTS: list[dict[str, Any]] = []
ROWS = next((arg[7:] for arg in sys.argv if arg.startswith("--rows=")), "1,64")


def timed(go: Callable[[], Any], rounds: int = 3) -> float:
    """Seconds of the best of some rounds, after two to warm up."""
    times = []
    for _ in range(rounds + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        go()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[2:])


def ceilings() -> tuple[float, float]:
    x = torch.empty(2**28, device="cuda")
    y = torch.empty_like(x)
    copy = 2 * x.numel() * 4 / timed(lambda: y.copy_(x), 5)
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    product = 2 * 8192**3 / timed(lambda: a @ a, 5)
    print(f"copy {copy / 1e12:.2f} TB/s, product {product / 1e12:.0f} TFLOP/s", flush=True)
    return copy, product


def put(what: str, rows: int, who: str, rate: float, floors: dict[str, float]) -> None:
    limits = ", ".join(f"{rate / most:.0%} of {name} {most:,.0f}" for name, most in floors.items())
    print(f"{what:10s} {rows:3d} rows  {who:10s} {rate:10,.0f} tokens/s  {limits}", flush=True)
    RESULTS.append(
        {"what": what, "rows": rows, "who": who, "tokens/s": round(rate, 1)}
        | {f"limit by {name}": round(most, 1) for name, most in floors.items()}
    )
    write_gpu(__file__, RESULTS, "what", "rows")


def decoder(what: str, model: gf.Model, fast: dict[str, int], top: tuple[float, float]) -> None:
    model.to("cuda", torch.bfloat16).eval()
    count = sum(p.numel() for p in model.parameters())
    blocks = [block.attention for block in model.spec.last_stack.attention_blocks]
    kept = sum(2 * 2 * block.key_heads * block.head_dim for block in blocks)  # bytes a token
    for rows in map(int, ROWS.split(",")):
        prompts = torch.randint(5, 50000, (rows, 32)).tolist()
        options = {
            "max_new_tokens": 256,
            "min_new_tokens": 0,
            "eos_token_id": (),
            "batch_size": rows,
        }
        seconds = timed(partial(model.generate, prompts, **options))
        floors = {
            "bytes": rows / ((2 * count + rows * 160 * kept) / top[0]),
            "operations": top[1] / (2 * count),
        }
        put(what, rows, "ours", rows * 256 / seconds, floors)
    model.to("cpu")
    model._recorded.clear()
    gc.collect()
    torch.cuda.empty_cache()
    if "--no-peers" not in sys.argv:
        gptfast(what, fast)


def gptfast(what: str, shape: dict[str, int]) -> None:
    if not (ROOT / "peers" / "gptfast" / "model.py").is_file():
        print("gpt-fast's model.py is not in peers/gptfast/")
        return
    import torch._inductor.config as inductor
    from torch.nn.attention.flex_attention import create_block_mask

    inductor.coordinate_descent_tuning = True
    sys.path.insert(0, str(ROOT / "peers" / "gptfast"))
    from model import ModelArgs, Transformer

    def decode(model: Any, x: Any, pos: Any, block_mask: Any) -> Any:
        mask = block_mask[:, :, pos // block_mask.BLOCK_SIZE[0]]
        mask.mask_mod = block_mask.mask_mod
        mask.seq_lengths = (1, model.max_seq_length)
        return model(mask, x, pos)[:, -1].argmax(-1, keepdim=True).to(torch.int)

    with torch.device("cuda"), torch.no_grad():
        transformer = Transformer(ModelArgs(block_size=4096, **shape)).to(torch.bfloat16).eval()
        for rows in map(int, ROWS.split(",")):
            transformer.max_seq_length = transformer.max_batch_size = -1
            transformer.setup_caches(rows, 288)
            causal = create_block_mask(
                lambda b, h, q, kv: q >= kv,
                1,
                1,
                transformer.max_seq_length,
                transformer.max_seq_length,
            )
            torch._dynamo.reset()
            step = torch.compile(decode, mode="reduce-overhead", fullgraph=True)

            def go(rows: int = rows, causal: Any = causal, step: Any = step) -> None:
                x, pos = torch.ones(rows, 1, dtype=torch.int), torch.tensor([32], dtype=torch.int)
                for _ in range(256):
                    x = step(transformer, x, pos, causal).clone()
                    pos += 1

            put(what, rows, "gpt-fast", rows * 256 / timed(go), {})
    inductor.coordinate_descent_tuning = False


def main() -> None:
    asked = [arg for arg in sys.argv[1:] if not arg.startswith("-")]
    asked = asked or ["gpt2", "llama"]
    top = ceilings()
    if "gpt2" in asked:
        shape = {
            "n_layer": 12,
            "n_head": 12,
            "dim": 768,
            "intermediate_size": 2048,
            "vocab_size": 50257,
        }  # three matrices of 2,048 have the weights of two of 3,072
        decoder("gpt2", gf.create("gpt2"), shape, top)
    if "llama" in asked:
        shape = {"n_layer": 16, "n_head": 32, "n_local_heads": 8, "dim": 2048,
                 "intermediate_size": 8192, "vocab_size": 128256}  # fmt: skip
        decoder("llama 1B", gf.create("llama-3.2-1b", **LLAMA), shape, top)


if __name__ == "__main__":
    main()
