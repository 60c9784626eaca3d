"""Forward of models with relative positions and a memory, float32 on two cores: an encoder of
XLNet-base's shape at 512 tokens beside transformers, and a Transformer-XL of the paper's base size
on WikiText-103 (16 layers, 410 wide, 10 heads of 41; its vocabulary reduced), reading 512 tokens
with no memory and with one of 512, beside the last release that has it:

    python -m venv /tmp/old
    /tmp/old/bin/pip install torch==2.13.0 transformers==4.35.2 'numpy<2'
    python bench/memory.py --old /tmp/old/bin/python

That release runs in a process of its own, which waits while we compute: both sides take turns.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

LENGTH = 512
XL = {
    "vocab_size": 20000,
    "cutoffs": [5000],
    "d_model": 410,
    "d_embed": 410,
    "n_head": 10,
    "d_head": 41,
    "d_inner": 2100,
    "n_layer": 16,
    "div_val": 1,
    "clamp_len": -1,
    "same_length": False,
}
CASES = {"no memory": 0, "memory of 512": LENGTH}


def serve(folder: str) -> None:
    """The other process: makes its models, then answers every line on its input with seconds."""
    import transformers

    torch.set_num_threads(2)
    torch.manual_seed(0)
    tokens = torch.randint(20000, (1, LENGTH))
    calls: dict[str, Callable[[], Any]] = {}
    with torch.inference_mode():
        for name, memory in CASES.items():
            config = transformers.TransfoXLConfig(**XL, mem_len=memory)
            model = transformers.TransfoXLModel(config).eval()
            model.save_pretrained(f"{folder}/{name}")
            mems = model(tokens).mems
            torch.save(
                {"tokens": tokens, "hidden": model(tokens, mems=mems)[0]},
                f"{folder}/{name}/expected.pt",
            )
            calls[name] = lambda model=model, mems=mems: model(tokens, mems=mems)
        print("ready", flush=True)
        for line in sys.stdin:
            begin = time.perf_counter()
            calls[line.strip()]()
            print(time.perf_counter() - begin, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--old", help="a Python that has transformers 4.35")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.serve)
        return
    from timing import write

    torch.set_num_threads(2)
    rows = [xlnet(chosen.rounds)]
    if chosen.old:
        rows += transformer_xl(chosen.old, chosen.rounds)
    write(__file__, rows)


def xlnet(rounds: int) -> dict[str, Any]:
    import transformers
    from timing import compared, in_turn

    import glassformer as gf
    from glassformer.families.xlnet import PRESETS

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    peer = transformers.XLNetModel(transformers.XLNetConfig(**PRESETS["xlnet-base"][1])).eval()
    with tempfile.TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        plain, packed = gf.load(folder), gf.load(folder).pack()
    tokens = torch.randint(1000, 32000, (1, LENGTH))
    with torch.inference_mode():
        theirs = peer(tokens)[0]
        for ours in (plain, packed):
            report(ours(tokens).last_hidden_state, theirs)
        times = in_turn(
            {
                "transformers": lambda: peer(tokens),
                "glassformer": lambda: plain(tokens),
                "glassformer, packed": lambda: packed(tokens),
            },
            rounds,
        )
    return compared("XLNet-base, 1 x 512", times, "transformers")


def transformer_xl(old: str, rounds: int) -> list[dict[str, Any]]:
    from timing import compared, in_turn

    import glassformer as gf

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        other = subprocess.Popen(
            [old, "-W", "ignore", str(Path(__file__).resolve()), "--serve", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline().strip() == "ready"

        def ask(name: str) -> float:
            print(name, file=other.stdin, flush=True)
            return float(other.stdout.readline())

        for name in CASES:
            plain, packed = (gf.load(f"{folder}/{name}") for _ in range(2))
            packed.pack()
            expected = torch.load(f"{folder}/{name}/expected.pt")
            tokens = expected["tokens"]
            sides: dict[str, Callable[[], Any]] = {"transformers 4.35": lambda n=name: ask(n)}
            with torch.inference_mode():
                for label, model in (("glassformer", plain), ("glassformer, packed", packed)):
                    memory = model.new_cache()
                    model(tokens, past_key_values=memory)

                    def forward(
                        transformer: Any = model,
                        memory: Any = memory,
                        tokens: torch.Tensor = tokens,
                    ) -> torch.Tensor:
                        return transformer(tokens, past_key_values=memory).last_hidden_state

                    report(forward(), expected["hidden"])
                    sides[label] = forward
                times = in_turn(sides, rounds)
            title = f"Transformer-XL base, 1 x {LENGTH}, {name}"
            rows.append(compared(title, times, "transformers 4.35"))
        other.stdin.close()
        other.wait()
    return rows


def report(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    print(json.dumps({"largest difference": float(f"{(ours - theirs).abs().max():.1e}")}))


if __name__ == "__main__":
    main()
