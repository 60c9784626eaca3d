"""What one pass through a stack knows besides the vectors that flow through it."""

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
    """New tokens that are not one text: ways to go on, side by side, of which each has a past."""

    own: Tensor  # [batch, query, key], True at a branch's past and at itself
    slots: Tensor  # [key]: where in its text each stands; several stand in one slot


@dataclass
class PassContext:
    """Positions are explicit, always: cache offsets, padding and packed texts are data.

    A *slot* is a place in the row, a *position* is what the model is told about it: with padding
    on the left the first real token stands in a later slot, at position 0. Masks, and position
    biases that only see distances, go by slots; tables and rotations go by positions.
    """

    stack: str  # "encoder" or "decoder"
    q_slot: Tensor  # [query]
    k_slot: Tensor  # [key]
    q_pos: Tensor  # [batch or 1, query]; -1 at padding
    key_mask: Tensor | None = None  # [batch, key], True at real tokens
    documents: Tensor | None = None  # [batch, key]: which packed text a token belongs to
    runs: Tensor | None = None  # [run + 1]: where runs of tokens begin that see each other alone
    prefix: Tensor | None = None  # [batch]: so many first slots are seen by all
    segments: Tensor | None = None  # [batch, key], where attention scores them
    permutation: Permutation | None = None
    branches: TreeMask | None = None
    blanks: int = 0  # so many first slots are an empty memory
    before: Tensor | None = None  # [batch, query]: padding before a text, which is blank too
    global_tokens: Tensor | None = None  # [batch, key], True at those that see all, seen by all
    memory: Tensor | None = None  # [batch, key, width]: what cross-attention reads
    memory_mask: Tensor | None = None  # [batch, key]
    story: Tensor | None = None  # [batch, sentence, word]: what hops read, in word ids
    story_mask: Tensor | None = None  # [batch, sentence, word]
    hide: Tensor | None = None  # [batch, patch], True where an image's patch is not shown
    states: list[Tensor] | None = None  # the embedding and each layer's output, where heads ask
    cache: Cache | None = None
    tap: Tap | None = None
    training: bool = False
    spare: bool = False  # the last keys are room for tokens to come
    newest: Callable[..., Tensor] | None = None  # a kernel for a step of one token a row
    eager: bool = False  # plain attention instead of the fused kernels
    depth: int | None = None  # of execution, while inside a block
    memo: dict[Any, Any] = field(default_factory=dict)  # what every layer of this pass shares

    @property
    def reads_memory(self) -> bool:
        return self.memory is not None or (self.cache is not None and self.cache.has_memory)

    @property
    def askers(self) -> Tensor | None:
        """[batch, asker]: where queries that only ask stand, counted from the first new token."""
        return None if self.permutation is None else self.permutation.targets

    @property
    def layer(self) -> int:
        assert self.depth is not None, "not inside a block"
        return self.depth

    @property
    def places(self) -> Tensor:
        """[batch or 1, key]: which token of its text each is, counted from 0; -1 at padding.
        Unlike positions they are never given from outside, and cover what the cache holds."""
        if "places" not in self.memo:
            mask, slots = self.key_mask, self.k_slot
            self.memo["places"] = (
                positions_of(mask, len(slots), slots.device)
                if self.documents is None
                else positions_in(self.documents, mask)
            )
        places: Tensor = self.memo["places"]
        return places

    def name(self, tensor: str) -> str:
        where = "" if self.depth is None else f"blocks.{self.depth}."
        return f"{self.stack}.{where}{tensor}"

    def hook_point(self, tensor: str, value: Tensor) -> Tensor:
        """Shows a tensor to the tap, if there is one, and goes on with what the tap returns."""
        return value if self.tap is None else self.tap(self.name(tensor), value)

    def asked(self, *tensors: str) -> bool:
        return self.tap is not None and wants(self.tap, map(self.name, tensors))


def before_text(real: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """Of [batch, slot], True at real tokens: the slots before a text, and those that are seen where
    the nearest `blank` before a text are."""
    before = real.cumsum(-1) == 0
    slots = torch.arange(real.shape[1], device=real.device)
    near = slots >= before.sum(-1, keepdim=True) - blank
    return before, real | (before & near)


def joined(
    old: Tensor | None, new: Tensor | None, fill: int, old_shape: tuple[int, int], added: int
) -> Tensor | None:
    """What was kept of earlier slots and what is said of `added` new ones; `fill` stands for the
    part that is not there, and None for both."""
    if old is None and new is None:
        return None
    known = new if old is None else old
    assert known is not None
    if old is None:
        old = known.new_full(old_shape, fill)
    if new is None:
        new = known.new_full((old_shape[0], added), fill)
    return torch.cat((old, new), -1)


def positions_of(mask: Tensor | None, length: int, device: torch.device) -> Tensor:
    """Counts real tokens from 0; padding stands at -1. Without a mask all are real."""
    if mask is None:
        return torch.arange(length, device=device)[None]
    return torch.where(mask, mask.cumsum(-1) - 1, -1)


def positions_in(documents: Tensor, mask: Tensor | None) -> Tensor:
    """Counts real tokens from 0 in every run of equal document numbers; padding stands at -1."""
    real = torch.ones_like(documents, dtype=torch.bool) if mask is None else mask
    new = torch.nn.functional.pad(documents[:, 1:] != documents[:, :-1], (1, 0), value=True)
    so_far = real.cumsum(-1)
    before = torch.where(new, so_far - real.long(), 0).cummax(-1).values
    return torch.where(real, so_far - 1 - before, -1)
