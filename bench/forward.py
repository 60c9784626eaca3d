"""Forward of a BERT-base-shaped encoder (8 x 128) and prefill of a GPT-2-shaped decoder (1 x 512),
float32 on two cores, beside transformers with its fused attention:

    python bench/forward.py
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import transformers
from timing import compared, in_turn, write

import glassformer as gf

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
CASES = (
    ("BERT-base encoder, 8 x 128", "BertModel", transformers.BertConfig(), (8, 128)),
    ("GPT-2 small prefill, 1 x 512", "GPT2LMHeadModel", transformers.GPT2Config(), (1, 512)),
)


def measure(title: str, architecture: str, config: Any, shape: tuple[int, int]) -> dict[str, Any]:
    torch.manual_seed(0)
    peer = getattr(transformers, architecture)(config).eval()
    assert peer.config._attn_implementation == "sdpa"
    with tempfile.TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        plain, packed = gf.load(folder), gf.load(folder).pack()
    tokens = torch.randint(1000, 20000, shape)
    with torch.inference_mode():
        theirs = peer(tokens, use_cache=False)[0]
        for ours in (plain, packed):
            out = ours(tokens)
            mine = out.last_hidden_state if out.logits is None else out.logits
            print(f"largest difference {float((mine - theirs).abs().max()):.1e}")
        times = in_turn(
            {
                "transformers": lambda: peer(tokens, use_cache=False),
                "glassformer": lambda: plain(tokens),
                "glassformer, packed": lambda: packed(tokens),
            },
            rounds=15,
        )
    return compared(title, times, "transformers")


def main() -> None:
    torch.set_num_threads(2)
    write(__file__, [measure(*case) for case in CASES])


if __name__ == "__main__":
    main()
