"""Forward of a DeBERTa-v3-base-shaped encoder at 512 tokens, float32 on two cores, beside
transformers:

    python bench/deberta.py
"""

from __future__ import annotations

import tempfile

import torch
import transformers
from timing import compared, in_turn, write

import glassformer as gf
from glassformer.families.deberta_v2 import DEFAULTS, PRESETS

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def main() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    config = transformers.DebertaV2Config(**{**DEFAULTS, **PRESETS["deberta-v3-base"][1]})
    peer = transformers.DebertaV2Model(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        plain, packed = gf.load(folder), gf.load(folder).pack()
    tokens = torch.randint(1000, 100000, (1, 512))
    with torch.inference_mode():
        theirs = peer(tokens)[0]
        for ours in (plain, packed):
            difference = (ours(tokens).last_hidden_state - theirs).abs().max()
            print(f"largest difference {float(difference):.1e}")
        times = in_turn(
            {
                "transformers": lambda: peer(tokens),
                "glassformer": lambda: plain(tokens),
                "glassformer, packed": lambda: packed(tokens),
            },
            rounds=11,
        )
    write(__file__, [compared("DeBERTa-v3-base encoder, 1 x 512", times, "transformers")])


if __name__ == "__main__":
    main()
