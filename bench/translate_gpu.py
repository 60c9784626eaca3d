"""Translation on one GPU in bfloat16: a base Transformer (2017: 6 + 6 layers, width 512, 32,000
words), beam 5, 64 texts at once, 32 tokens in and 40 out, beside transformers in the same run:

    python bench/translate_gpu.py [--compile]

The floors of a step are the bytes of its weights and of the keys and values over the rate of a
device copy, and its products over the rate of a large one: both are measured first.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import torch
from generate_gpu import ceilings, timed
from translate import WORDS, step_layers

import glassformer as gf

BATCH, BEAMS, SOURCE, NEW = 64, 5, 32, 40
OPTIONS = {"num_beams": BEAMS, "min_new_tokens": NEW, "max_new_tokens": NEW}


def main() -> None:
    from transformers import MarianMTModel

    torch.manual_seed(0)
    copy, product = ceilings()
    folder = Path("build/translate_gpu")
    model = gf.create("transformer-base", vocab_size=WORDS, decoder_vocab_size=WORDS)
    model.save(folder)
    model.to("cuda", torch.bfloat16).eval()
    layers = step_layers(model)
    weights = sum(layer.weight.numel() for layer in layers)
    keys = 2 * 6 * 512 * BATCH * (SOURCE + BEAMS * NEW / 2)  # read by a step in the middle
    floor = max(2 * (weights + keys) / copy, 2 * weights * BATCH * BEAMS / product)
    source = torch.randint(5, WORDS - 5, (BATCH, SOURCE))
    rates: dict[str, float] = {}
    for compiled in (False, True) if "--compile" in sys.argv else (False,):
        go = partial(model.generate, source.tolist(), batch_size=BEAMS * BATCH, compile=compiled)
        name = "glassformer, compiled" if compiled else "glassformer"
        rates[name] = BATCH * NEW / timed(partial(go, **OPTIONS), 5)
        print(f"{name:24s} {rates[name]:10,.0f} tokens/s", flush=True)
    peer = MarianMTModel.from_pretrained(folder, attn_implementation="sdpa")
    peer = peer.to("cuda", torch.bfloat16).eval()
    x = source.cuda()
    mask = torch.ones_like(x)
    again = partial(peer.generate, input_ids=x, attention_mask=mask, do_sample=False, **OPTIONS)
    theirs = BATCH * NEW / timed(again, 2)
    print(f"{'transformers':24s} {theirs:10,.0f} tokens/s", flush=True)
    for name, rate in rates.items():
        print(f"{name}: {rate / theirs:.2f}x transformers; a step {BATCH / rate * 1e3:.2f} ms, "
              f"at least {floor * 1e3:.2f}")  # fmt: skip
    content = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "tokens_per_second": {n: round(r) for n, r in {**rates, "transformers": theirs}.items()},
        "floor_ms": round(floor * 1e3, 3),
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
