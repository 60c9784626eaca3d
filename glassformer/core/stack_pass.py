"""Preparation of a forward pass through a stack: its positions, masks and `PassContext`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.core.cache import Cache
from glassformer.core.input_rules import check_masked_patches
from glassformer.core.pass_context import (
    PassContext,
    count_positions,
    count_positions_per_document,
    extend_by_past,
    padding_as_memory,
)
from glassformer.core.stack import Stack, StackWrapper
from glassformer.errors import InputError, UnsupportedError


@dataclass(frozen=True)
class StackPass:
    """A prepared forward pass through a stack.

    Attributes:
        inputs: The arguments of the stack: its tokens, the `PassContext`, segment and language ids.
        finish: Updates the cache and removes virtual tokens. Call it with the stack's output.
    """

    inputs: tuple[Tensor, PassContext, Tensor | None, Tensor | None]
    finish: Callable[[Tensor], Tensor]


def prepare_pass(
    name: str, stack: Stack, tokens: Tensor, mask: Tensor | None = None, **options: Any
) -> StackPass:
    """Prepares a pass through a stack; its wrapper, if there is one, changes the inputs first.

    Args:
        name: "encoder" or "decoder".
        stack: The stack.
        tokens: Token ids of [batch, position], or the signal.
        mask: True at real tokens.
        **options: The other inputs of the pass; see `PassContext`.
    """
    wrapper = stack.active_wrapper
    if wrapper is None:
        return _prepare(name, stack, tokens, mask=mask, **options)
    tokens, options = wrapper.prepare(name, stack, tokens, {**options, "mask": mask})
    return _prepare(name, stack, tokens, wrapper, **options)


def _prepare(
    name: str,
    stack: Stack,
    tokens: Tensor,
    wrapper: StackWrapper | None = None,
    *,
    mask: Tensor | None = None,
    segments: Tensor | None = None,
    languages: Tensor | None = None,
    positions: Tensor | None = None,
    cache: Cache | None = None,
    documents: Tensor | None = None,
    memory_mask: Tensor | None = None,
    **options: Any,
) -> StackPass:
    """Computes positions and extends the masks by the cached slots."""
    check_masked_patches(stack.spec, options.get("bool_masked_pos"))
    device, batch, new = tokens.device, len(tokens), stack.embed.length(tokens)
    _check_shapes(tokens, mask, positions, new)
    past = 0 if cache is None else cache.length
    table = stack.spec.embed.position
    if positions is None:
        counted = mask
        if table is not None and table.padding_idx is not None:
            real = tokens.ne(table.padding_idx)
            counted = real if mask is None else real & mask
        if documents is None:
            positions = count_positions(counted, new, device)
        else:
            positions = count_positions_per_document(documents, counted)
        if cache is not None and cache.next_position is not None and documents is None:
            positions = torch.where(positions < 0, positions, positions + cache.next_position)
    tree_mask: Any = options.get("tree_mask")
    cu_seqlens: Any = options.get("cu_seqlens")
    if cu_seqlens is not None and not cu_seqlens.is_cuda and cu_seqlens[-1] != tokens.numel():
        raise InputError(
            f"cu_seqlens ends at {int(cu_seqlens[-1])}, and the batch has {tokens.numel()} tokens."
        )
    if tree_mask is None:
        # otherwise texts share one row, and each must fit
        in_rows = cu_seqlens is None or cu_seqlens.is_cuda
        length = past + new if in_rows else int(cu_seqlens.diff().max())
        if table is not None and length > table.length:
            raise InputError(
                f"The text has {length} tokens and the model's positions end at {table.length}; "
                "shorten it."
            )
    blank = stack.spec.empty_memory_slots
    empty_slots = 0 if past else blank
    ordered, prefix = options.get("permutation") is not None, options.get("prefix_length")
    if (documents is not None and (blank or ordered)) or (prefix is not None and ordered):
        raise UnsupportedError(
            "Packed documents cannot be combined with an empty memory, and a permutation cannot "
            "be combined with packed documents or a prefix; use one row per text."
        )
    if cache is not None and empty_slots and mask is None:  # no real tokens; caches may be joined
        mask = torch.ones_like(tokens, dtype=torch.bool)
    if cache is not None or empty_slots:
        kept = (None, None) if cache is None else (cache.mask, cache.token_type_ids)
        shape = (batch, past + empty_slots)
        mask = extend_by_past(kept[0], mask, past > 0, shape, new)
        if segments is not None and stack.spec.scores_segments:
            segments = extend_by_past(kept[1], segments, 0, shape, new)
    if cache is not None:
        if documents is not None and cache.document_ids is not None:
            documents = torch.cat((cache.document_ids, documents), -1)
        if memory_mask is None:
            memory_mask = cache.encoder_attention_mask
        cache.encoder_attention_mask = memory_mask
    whole = torch.arange(past + empty_slots + new, device=device)
    slots = whole if tree_mask is None else tree_mask.slots
    ctx = PassContext(
        stack=name,
        q_slot=slots[past + empty_slots :],
        k_slot=slots,
        q_pos=positions,
        key_mask=mask,
        document_ids=documents,
        encoder_attention_mask=memory_mask,
        cache=cache,
        empty_memory_slots=empty_slots,
        training=stack.training,
        **options,
    )
    if blank and mask is not None:
        before, ctx.key_mask = padding_as_memory(mask, blank)
        ctx.left_padding_is_memory = before[:, -new:]
    if segments is not None and stack.spec.scores_segments:
        ctx.token_type_ids, segments = segments, None

    def finish(hidden: Tensor) -> Tensor:
        if cache is not None:
            cache.advance(positions, mask, documents, ctx.token_type_ids, empty_slots)
        return hidden if wrapper is None else wrapper.finish(hidden, ctx)

    return StackPass((tokens, ctx, segments, languages), finish)


def _check_shapes(tokens: Tensor, mask: Tensor | None, positions: Tensor | None, new: int) -> None:
    if mask is not None and tokens.ndim == 2 and mask.shape != tokens.shape:
        raise InputError(
            f"The attention mask is {list(mask.shape)}, and the tokens are {list(tokens.shape)}; "
            "give one number for each token."
        )
    if positions is not None and positions.shape[-1] != new:
        raise InputError(
            f"position_ids are {list(positions.shape)}, and there are {new} tokens in a row; give "
            "one for each."
        )
