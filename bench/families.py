"""Generation on two CPU cores in float32, for every family that writes, beside transformers:

    python bench/families.py [--only gpt2 t5-base] [--rounds 5]

Greedy decoding of one text and of eight at once, 32 tokens in and 48 out; encoder-decoders read 128
tokens, or 30 seconds of sound. Families whose published models are large are measured in a smaller
size, of about 100 million weights. XLM is left out: transformers writes with it without a cache.
Every side is a process of its own, and they take turns.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

from sides import Side, serve

PROMPT, SOURCE, NEW = 32, 128, 48
WIDE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 32000}
GATED = {**WIDE, "num_key_value_heads": 4, "intermediate_size": 2048}
GEMMA = {**GATED, "head_dim": 64, "num_attention_heads": 12}
PAIR = {
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "vocab_size": 32000,
}
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt": ("gpt", {}),
    "gpt2": ("gpt2", {}),
    "ctrl": (
        "ctrl",
        {"n_embd": 768, "n_layer": 12, "n_head": 12, "dff": 3072, "vocab_size": 32000},
    ),
    "gpt-neo": ("gpt-neo-125m", {}),
    "gpt-j": (
        "gpt-j-6b",
        {"n_embd": 768, "n_layer": 12, "n_head": 12, "rotary_dim": 32},
    ),
    "gpt-neox": ("pythia-160m", {}),
    "opt": ("opt-125m", {}),
    "opt, norm after": ("opt-350m", {}),
    "llama": ("llama-7b", GATED),
    "mistral": ("mistral-7b", GATED),
    "phi": ("phi-1", {**WIDE, "intermediate_size": 3072}),
    "qwen2": ("qwen2.5-0.5b", GATED),
    "qwen3": ("qwen3-0.6b", {**GATED, "head_dim": 64}),
    "gemma": ("gemma-2b", GEMMA),
    "gemma2": ("gemma-2-2b", {**GEMMA, "query_pre_attn_scalar": 64}),
    "gemma3": ("gemma-3-270m", {}),
}
PAIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer-base", {"vocab_size": 32000, "decoder_vocab_size": 32000}),
    "bart": ("bart-base", {}),
    "mbart": ("mbart-large-cc25", PAIR),
    "pegasus": ("pegasus-large", PAIR),
    "m2m100": ("m2m100-418m", PAIR),
    "t5-small": ("t5-small", {}),
    "t5-base": ("t5-base", {}),
    "mt5": ("mt5-small", {"vocab_size": 32000}),
    "whisper": ("whisper-base", {}),
}
WANTED = {"decoder": 2.0, "encoder-decoder": 1.5}
Run = Callable[[list[list[int]]], Any]


def sources(prompts: list[list[int]], bands: int | None) -> Any:
    """Texts, or spectrograms of 30 seconds, which are drawn on both sides alike."""
    import torch

    if bands is None:
        return prompts
    generator = torch.Generator().manual_seed(0)
    return torch.randn(len(prompts), bands, 3000, generator=generator)


def make(name: str, folder: str) -> tuple[Run, int]:
    import torch

    torch.set_num_threads(2)
    return {"glassformer": ours, "transformers": theirs}[name](folder), 0


def ours(folder: str) -> Run:
    import glassformer as gf

    model = gf.load(folder)
    bands = getattr(model.spec.encoder and model.spec.encoder.embed, "num_mel_bins", None)
    options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "num_beams": 1, "do_sample": False}

    def run(prompts: list[list[int]]) -> Any:
        given = sources(prompts, bands)
        return model.generate(prompts if bands is None else list(given), **options)

    return run


def theirs(folder: str) -> Run:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    bands = config.num_mel_bins if config.model_type == "whisper" else None
    generate = partial(
        transformers.GenerationMixin.generate,  # Whisper's own splits sound into windows
        model,
        max_new_tokens=NEW,
        min_new_tokens=NEW,
        num_beams=1,
        do_sample=False,
        pad_token_id=0,
        decoder_start_token_id=getattr(config, "decoder_start_token_id", None) or 0,
    )

    def run(prompts: list[list[int]]) -> Any:
        given = torch.as_tensor(sources(prompts, bands))
        if bands is not None:
            return generate(input_features=given)
        return generate(input_ids=given, attention_mask=torch.ones_like(given))

    return run


def main(only: list[str], rounds: int) -> None:
    import torch
    from timing import compared, write

    import glassformer as gf

    torch.set_num_threads(2)
    torch.manual_seed(0)
    rows = []
    for kind, models in (("decoder", DECODERS), ("encoder-decoder", PAIRS)):
        for name, (preset, settings) in models.items():
            if only and name not in only:
                continue
            with tempfile.TemporaryDirectory() as folder:
                gf.create(preset, seed=0, **settings).save(folder)
                sides = [Side(__file__, side, folder) for side in ("glassformer", "transformers")]
                for batch in (1, 8):
                    length = PROMPT if kind == "decoder" else SOURCE
                    prompts = torch.randint(5, 10000, (batch, length)).tolist()
                    times: dict[str, list[float]] = {side.name: [] for side in sides}
                    for turn in range(1 + rounds):
                        for side in sides:
                            seconds = side.time(prompts)
                            times[side.name] += [seconds] if turn else []
                    row = compared(f"{name} ({kind}), batch {batch}", times, "transformers")
                    rows.append({**row, "wanted": WANTED[kind]})
                for side in sides:
                    side.process.terminate()
            write(__file__, rows, "what")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[], help="names of the rows to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(make, *asked.serve)
    else:
        main(asked.only, asked.rounds)
