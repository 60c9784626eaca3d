"""Generation from token ids in a tensor, with token ids as the result, as in transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from glassformer.core import Transformer
from glassformer.errors import InputError
from glassformer.generate.writer import Generator


def generate_ids(
    generator: Generator,
    input_ids: Tensor,
    attention_mask: Tensor | None,
    options: Mapping[str, Any],
    draft: Transformer | None = None,
) -> Tensor:
    """Generates from rows of token ids.

    Args:
        generator: The model's generator.
        input_ids: [row, position]; for an encoder-decoder, the encoder's input.
        attention_mask: Nonzero at real tokens. Default: all are real.
        options: See `GenerationConfig`.
        draft: A smaller model for speculative decoding.

    Returns:
        Token ids of [row * num_return_sequences, position]. A row is the given one and the new
        tokens, or, for an encoder-decoder, the decoder's start and the new tokens; shorter rows end
        with padding.
    """
    if not isinstance(input_ids, Tensor):
        raise InputError(
            f"input_ids must be a tensor, not {type(input_ids).__name__}; a list of token ids is a "
            "prompt."
        )
    if input_ids.ndim != 2 or input_ids.is_floating_point():
        raise InputError(
            f"input_ids must be token ids of [row, position], not {list(input_ids.shape)} of "
            f"{input_ids.dtype}."
        )
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    if mask.shape != input_ids.shape:
        raise InputError(
            f"attention_mask is {list(mask.shape)}, and input_ids are {list(input_ids.shape)}; "
            "give one number for each token."
        )
    prompts = [ids[real.bool()].tolist() for ids, real in zip(input_ids, mask, strict=True)]
    config = generator.resolve_config(options)
    outputs = generator.generate(prompts, options, draft)
    assert isinstance(outputs, list)
    rows: list[list[int]] = []
    for ids, prompt, output in zip(input_ids.tolist(), prompts, outputs, strict=True):
        begun = generator.beginning(tuple(prompt), config) if generator.translates else ids
        rows += [[*begun, *one.tokens] for one in (output, *output.alternatives)]
    fill = config.pad_token_id
    if fill is None:
        fill = next(iter(config.eos_token_id), 0)
    longest = max(map(len, rows))
    filled = [[*row, *[fill] * (longest - len(row))] for row in rows]
    return torch.tensor(filled, device=input_ids.device)
