"""State of one forward pass through a stack besides the hidden states: positions, masks, cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.core.cache import Cache
from glassformer.core.hooks import Tap, wants
from glassformer.core.permutation import Permutation


class TreeMask(NamedTuple):
    """The attention mask of new tokens that are alternative continuations, not one text."""

    ancestor_mask: Tensor  # [batch, query, key], True at a token's past and at itself
    slots: Tensor  # [key]: the slot of each token; alternatives share a slot


@dataclass
class PassContext:
    """What the layers of a stack need to know about a forward pass.

    Positions are always explicit: cache offsets, padding and packed texts are data. A *slot* is an
    index in the row, a *position* is the number that the model uses for it: with padding on the
    left the first real token is in a later slot, at position 0. Masks, and position biases that
    depend only on distances, use slots; tables and rotations use positions.
    """

    stack: str  # "encoder" or "decoder"
    q_slot: Tensor  # [query]
    k_slot: Tensor  # [key]
    q_pos: Tensor  # [batch or 1, query]; -1 at padding
    key_mask: Tensor | None = None  # [batch, key], True at real tokens
    document_ids: Tensor | None = None  # [batch, key]: the packed text a token belongs to
    cu_seqlens: Tensor | None = None  # [run + 1]: offsets of runs that attend only to themselves
    prefix_length: Tensor | None = None  # [batch]: number of first slots visible to all
    token_type_ids: Tensor | None = None  # [batch, key], if attention scores them
    permutation: Permutation | None = None
    tree_mask: TreeMask | None = None
    empty_memory_slots: int = 0  # number of first slots that are an empty memory
    left_padding_is_memory: Tensor | None = (
        None  # [batch, query]: padding before a text, also blank
    )
    global_attention_mask: Tensor | None = None  # [batch, key], True: attends to all, seen by all
    encoder_hidden_states: Tensor | None = None  # [batch, key, width]: read by cross-attention
    encoder_attention_mask: Tensor | None = None  # [batch, key]
    memory_tokens: Tensor | None = None  # [batch, sentence, word]: word ids that memory hops read
    memory_tokens_mask: Tensor | None = None  # [batch, sentence, word]
    inputs_embeds: Tensor | None = None  # [batch, query, width]: in place of the token table's
    virtual_tokens: Tensor | None = None  # [token, width]: vectors of the first tokens (adapters)
    bool_masked_pos: Tensor | None = None  # [batch, patch], True at masked image patches
    hidden_states: list[Tensor] | None = None  # collects the embedding and layer outputs
    cache: Cache | None = None
    tap: Tap | None = None
    training: bool = False
    preallocated: bool = False  # the last keys are preallocated for later tokens
    decode_kernel: Callable[..., Tensor] | None = None  # a kernel for a step of one token per row
    eager: bool = False  # plain attention instead of fused kernels
    depth: int | None = None  # index in execution order, while inside a block
    memo: dict[Any, Any] = field(default_factory=dict)  # values shared by the layers of this pass

    @property
    def has_encoder_output(self) -> bool:
        return self.encoder_hidden_states is not None or (
            self.cache is not None and self.cache.has_cross_attention
        )

    @property
    def query_stream(self) -> Tensor | None:
        """[batch, target]: slots of the query stream, counted from the first new token (XLNet)."""
        return None if self.permutation is None else self.permutation.targets

    @property
    def layer(self) -> int:
        assert self.depth is not None, "not inside a block"
        return self.depth

    @property
    def text_positions(self) -> Tensor:
        """[batch or 1, key]: index of each token in its text, from 0; -1 at padding.

        Unlike positions they are never given by the caller, and they cover the cached tokens.
        """
        if "text_positions" not in self.memo:
            mask, slots = self.key_mask, self.k_slot
            self.memo["text_positions"] = (
                count_positions(mask, len(slots), slots.device)
                if self.document_ids is None
                else count_positions_per_document(self.document_ids, mask)
            )
        found: Tensor = self.memo["text_positions"]
        return found

    def name(self, tensor: str) -> str:
        """Returns the full name of a hook point."""
        where = "" if self.depth is None else f"blocks.{self.depth}."
        return f"{self.stack}.{where}{tensor}"

    def hook_point(self, tensor: str, value: Tensor) -> Tensor:
        """Passes a tensor to the tap, if there is one, and returns the tap's result."""
        return value if self.tap is None else self.tap(self.name(tensor), value)

    def tap_wants(self, *tensors: str) -> bool:
        """Whether the tap wants one of these tensors."""
        return self.tap is not None and wants(self.tap, map(self.name, tensors))


def padding_as_memory(real: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """Finds padding before a text, and makes the nearest `blank` slots of it visible.

    Args:
        real: [batch, slot], True at real tokens.
        blank: Number of slots of an empty memory.

    Returns:
        Two masks of [batch, slot]: the slots before the text, and the visible slots.
    """
    before = real.cumsum(-1) == 0
    slots = torch.arange(real.shape[1], device=real.device)
    near = slots >= before.sum(-1, keepdim=True) - blank
    return before, real | (before & near)


def extend_by_past(
    old: Tensor | None, new: Tensor | None, fill: int, old_shape: tuple[int, int], added: int
) -> Tensor | None:
    """Concatenates the values of earlier slots with those of `added` new ones.

    `fill` replaces the part that is missing. Returns None if both are missing.
    """
    if old is None and new is None:
        return None
    known = new if old is None else old
    assert known is not None
    if old is None:
        old = known.new_full(old_shape, fill)
    if new is None:
        new = known.new_full((old_shape[0], added), fill)
    return torch.cat((old, new), -1)


def count_positions(mask: Tensor | None, length: int, device: torch.device) -> Tensor:
    """Counts real tokens from 0; padding is at -1. Without a mask all tokens are real."""
    if mask is None:
        return torch.arange(length, device=device)[None]
    return torch.where(mask, mask.cumsum(-1) - 1, -1)


def count_positions_per_document(documents: Tensor, mask: Tensor | None) -> Tensor:
    """Counts real tokens from 0 in every run of equal document numbers; padding is at -1."""
    real = torch.ones_like(documents, dtype=torch.bool) if mask is None else mask
    new = torch.nn.functional.pad(documents[:, 1:] != documents[:, :-1], (1, 0), value=True)
    so_far = real.cumsum(-1)
    before = torch.where(new, so_far - real.long(), 0).cummax(-1).values
    return torch.where(real, so_far - 1 - before, -1)
