"""Makes tests/families/transfo_xl/: small random Transformer-XL models and what the last release of
transformers that can be run with them says. That release is older than the one glassformer is
tested with, so it needs an environment of its own:

    python -m venv /tmp/old
    /tmp/old/bin/pip install torch==2.13.0 transformers==4.35.2 'numpy<2'
    /tmp/old/bin/python tools/transfo_xl_fixtures.py

Each folder holds a model as that release saves it and `expected.safetensors`: `tokens`; `hidden`
and `logits` of the whole text; and the same for the text in SEGMENTS, with the memory handed on.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

FOLDER = Path(__file__).parent.parent / "tests" / "families" / "transfo_xl"
SEGMENTS = (5, 1, 8, 2)
SMALL = {
    "vocab_size": 40,
    "cutoffs": [10, 22],
    "d_model": 16,
    "d_embed": 16,
    "n_head": 2,
    "d_head": 6,
    "d_inner": 20,
    "n_layer": 2,
    "div_val": 2,
    "mem_len": 6,
    "clamp_len": 9,
    "pad_token_id": 3,
}
LM = "TransfoXLLMHeadModel"
MODELS = {
    "as-published": (LM, {}),
    "long-memory": (LM, {"same_length": False, "mem_len": 30, "clamp_len": -1}),
    "short-memory": (LM, {"same_length": False, "mem_len": 3}),
    "no-memory": (LM, {"same_length": False, "mem_len": 0}),
    "shared-biases": (LM, {"untie_r": False, "pre_lnorm": True}),
    "norm-before": (LM, {"same_length": False, "pre_lnorm": True, "n_layer": 3}),
    "one-table": (LM, {"div_val": 1}),
    "narrow-table": (LM, {"div_val": 1, "d_embed": 10}),
    "narrow-table-apart": (
        LM,
        {
            "div_val": 1,
            "d_embed": 10,
            "proj_share_all_but_first": False,
            "tie_word_embeddings": False,
        },
    ),
    "narrow-clusters": (LM, {"d_embed": 12, "div_val": 3, "tie_word_embeddings": False}),
    "no-clusters": (LM, {"cutoffs": [], "div_val": 1}),
    "bare": ("TransfoXLModel", {"n_head": 3}),
    "classify": ("TransfoXLForSequenceClassification", {"num_labels": 3}),
}


def make(architecture: str, config: dict) -> torch.nn.Module:
    """Random values in every tensor, so that none can hide."""
    known = transformers.TransfoXLConfig(**config)
    model = getattr(transformers, architecture)(known).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            spread, middle = (0.3, 0.0) if tensor.ndim == 1 else (0.2, 0.0)
            if name.endswith("layer_norm.weight"):
                middle = 1.0
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * spread + middle)
    return model


@torch.no_grad()
def expected(model: torch.nn.Module, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    body = getattr(model, "transformer", model)
    found = {"tokens": tokens}
    mems, parts = None, tokens.split(SEGMENTS, -1)
    found["hidden"] = body(tokens).last_hidden_state
    if model is not body:
        found["logits"] = model(tokens).logits
    for i, part in enumerate(parts):
        out = body(part, mems=mems)
        found[f"hidden.{i}"] = out.last_hidden_state
        if model is not body:
            found[f"logits.{i}"] = model(part, mems=mems).logits
        mems = out.mems
    return {name: tensor.contiguous() for name, tensor in found.items()}


def main() -> None:
    if FOLDER.exists():
        shutil.rmtree(FOLDER)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, 40, (2, sum(SEGMENTS)), generator=generator)
    for name, (architecture, changes) in MODELS.items():
        model = make(architecture, {**SMALL, **changes})
        folder = FOLDER / name
        # The shared biases have several names, which safetensors refuses: the older format.
        model.save_pretrained(folder, safe_serialization=name != "shared-biases")
        (folder / "generation_config.json").unlink(missing_ok=True)
        save_file(expected(model, tokens), folder / "expected.safetensors")


if __name__ == "__main__":
    main()
