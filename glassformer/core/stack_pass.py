"""One forward pass through a stack: builds the `PassContext` and updates the cache."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from glassformer.core.cache import Cache
from glassformer.core.pass_context import (
    PassContext,
    before_text,
    joined,
    positions_in,
    positions_of,
)
from glassformer.core.stack import Stack
from glassformer.errors import InputError, UnsupportedError


def run(name: str, stack: Stack, tokens: Tensor, mask: Tensor | None = None, **more: Any) -> Tensor:
    """Runs a stack, through its wrapper if it has one (see `adapters`)."""
    inner = _run if stack.around is None else partial(stack.around, _run)
    return inner(name, stack, tokens, mask=mask, **more)


def _run(
    name: str,
    stack: Stack,
    tokens: Tensor,
    *,
    mask: Tensor | None = None,
    segments: Tensor | None = None,
    languages: Tensor | None = None,
    positions: Tensor | None = None,
    cache: Cache | None = None,
    documents: Tensor | None = None,
    memory_mask: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Computes positions, extends the masks by the cached slots, and runs the stack."""
    device, batch, new = tokens.device, len(tokens), stack.embed.length(tokens)
    past = 0 if cache is None else cache.length
    table = stack.spec.embed.position
    if positions is None:
        counted = mask
        if table is not None and table.pad is not None:
            real = tokens.ne(table.pad)
            counted = real if mask is None else real & mask
        if documents is None:
            positions = positions_of(counted, new, device)
        else:
            positions = positions_in(documents, counted)
        if cache is not None and cache.positions is not None and documents is None:
            positions = torch.where(positions < 0, positions, positions + cache.positions)
    branches: Any = options.get("branches")
    runs: Any = options.get("runs")
    if branches is None:
        in_rows = runs is None or runs.is_cuda  # otherwise texts share one row, and each must fit
        length = past + new if in_rows else int(runs.diff().max())
        if table is not None and length > table.length:
            raise InputError(
                f"The text has {length} tokens and the model's positions end at {table.length}; "
                "shorten it."
            )
    blank = stack.spec.blanks
    blanks = 0 if past else blank
    ordered, prefix = options.get("permutation") is not None, options.get("prefix")
    if (documents is not None and (blank or ordered)) or (prefix is not None and ordered):
        raise UnsupportedError(
            "Packed documents have no blank memory of their own, and an order of reading goes "
            "with neither them nor a prefix; give such texts one a row, by themselves."
        )
    if cache is not None and blanks and mask is None:  # blanks are not real; caches may be joined
        mask = torch.ones_like(tokens, dtype=torch.bool)
    if cache is not None or blanks:
        kept = (None, None) if cache is None else (cache.mask, cache.segments)
        shape = (batch, past + blanks)
        mask = joined(kept[0], mask, past > 0, shape, new)
        if segments is not None and stack.spec.scores_segments:
            segments = joined(kept[1], segments, 0, shape, new)
    if cache is not None:
        if documents is not None and cache.documents is not None:
            documents = torch.cat((cache.documents, documents), -1)
        if memory_mask is None:
            memory_mask = cache.memory_mask
        cache.memory_mask = memory_mask
    whole = torch.arange(past + blanks + new, device=device)
    slots = whole if branches is None else branches.slots
    ctx = PassContext(
        stack=name,
        q_slot=slots[past + blanks :],
        k_slot=slots,
        q_pos=positions,
        key_mask=mask,
        documents=documents,
        memory_mask=memory_mask,
        cache=cache,
        blanks=blanks,
        training=stack.training,
        **options,
    )
    if blank and mask is not None:
        before, ctx.key_mask = before_text(mask, blank)
        ctx.before = before[:, -new:]
    if stack.spec.scores_segments:
        ctx.segments, segments = segments, None
    hidden: Tensor = stack(tokens, ctx, segments, languages)
    if cache is not None:
        cache.advance(positions, mask, documents, ctx.segments, blanks)
    return hidden
