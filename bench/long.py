"""Forward of a BigBird-base-shaped encoder over long texts, float32 on two cores: at 4,096 tokens
beside transformers, and how our time grows from 1,024 to 8,192:

    python bench/long.py
"""

from __future__ import annotations

import statistics
import tempfile

import torch
import transformers
from timing import compared, in_turn, write

import glassformer as gf

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
LENGTHS = (1024, 2048, 4096, 8192)


def main() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    config = transformers.BigBirdConfig(max_position_embeddings=LENGTHS[-1])
    peer = transformers.BigBirdModel(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        plain, packed = gf.load(folder), gf.load(folder).pack()
    tokens = torch.randint(1000, 50000, (1, LENGTHS[-1]))
    text = tokens[:, :4096]
    with torch.inference_mode():
        theirs = peer(text)[0]
        for ours in (plain, packed):
            difference = (ours(text).last_hidden_state - theirs).abs().max()
            print(f"largest difference {float(difference):.1e}")
        times = in_turn(
            {
                "transformers": lambda: peer(text),
                "glassformer": lambda: plain(text),
                "glassformer, packed": lambda: packed(text),
            },
            rounds=5,
            warm=1,
        )
        growth = in_turn(
            {str(n): lambda n=n: packed(tokens[:, :n]) for n in LENGTHS}, rounds=5, warm=1
        )
    rows = [compared("BigBird-base encoder, 1 x 4,096", times, "transformers"), grown(growth)]
    write(__file__, rows)


def grown(times: dict[str, list[float]]) -> dict[str, object]:
    medians = {name: statistics.median(values) for name, values in times.items()}
    first = medians[str(LENGTHS[0])]
    print("\nBigBird-base encoder, packed, by length")
    for name, median in medians.items():
        print(f"  {name:>28} {median * 1e3:10.1f} ms   {median / first:5.2f}x")
    return {
        "what": "BigBird-base encoder, packed, by length",
        **{
            name: {"ms": round(m * 1e3, 2), "growth": round(m / first, 3)}
            for name, m in medians.items()
        },
    }


if __name__ == "__main__":
    main()
