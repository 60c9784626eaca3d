"""Small models by spec, to try one part at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

import glassformer as gf
from glassformer import spec
from glassformer.core import Transformer

ATTENTION = spec.AttentionSpec(heads=4, head_dim=8)
BLOCK = spec.BlockSpec(
    attention=ATTENTION, ffn=spec.FeedForwardSpec(width=48), norm=spec.NormSpec()
)
LM = spec.HeadSpec(name="lm", num_outputs=50, bias="none")
SCATTERED = torch.tensor(  # padding before a text, behind it, and within, as between turns
    [
        [False, False, True, True, True, True],
        [True, True, True, False, False, False],
        [True, False, True, True, False, True],
        [True, True, True, True, True, True],
    ]
)


def stack(layers: int = 2, embed: dict[str, Any] | None = None, **block: Any) -> spec.StackSpec:
    changed = replace(BLOCK, **block)
    return spec.StackSpec(
        width=32,
        embed=spec.TokenEmbeddingSpec(vocabulary=50, **(embed or {})),
        blocks=(changed,) * layers,
        final_norm=spec.NormSpec(),
    )


def decoder(layers: int = 2, **block: Any) -> spec.ModelSpec:
    return spec.ModelSpec(
        decoder=stack(layers, **{"pattern": spec.CAUSAL, **block}),
        heads=(LM,),
        init=spec.InitSpec(std=0.2),
    )


def encoder(layers: int = 2, **block: Any) -> spec.ModelSpec:
    return spec.ModelSpec(encoder=stack(layers, **block), heads=(LM,), init=spec.InitSpec(std=0.2))


def transformer(model: spec.ModelSpec, seed: int = 0) -> Transformer:
    return gf.create(model, seed=seed)


def tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(50, shape, generator=torch.Generator().manual_seed(seed))
