"""Memory-compressed attention (Liu et al., 2018): merges groups of neighboring keys into one.

A convolution with kernel size equal to its stride merges `factor` neighbors; the queries are not
merged. As in tensor2tensor, a query sees the merged keys that lie completely before it, and the
text's first token unmerged, so that the first queries see something. A merged key is the sum of the
contributions of its tokens (`share`), computed once per token and kept in the cache.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.core.attention.mask import AttentionMask, with_fully_masked_queries
from glassformer.core.pass_context import PassContext
from glassformer.errors import UnsupportedError


class KeyCompression(nn.Module):
    """The convolution that merges keys, or values."""

    def __init__(self, width: int, factor: int) -> None:
        super().__init__()
        self.factor = factor
        self.over_tokens = nn.Conv1d(width, width, factor, stride=factor)

    def contributions(self, x: Tensor, ctx: PassContext) -> Tensor:
        """Returns each token's contribution to its group, [batch, position, width].

        The first token is returned unchanged.
        """
        batch, new, width = x.shape
        places = ctx.text_positions[:, -new:]
        past = len(ctx.k_slot) - new
        begun: Tensor | int = past - past % self.factor  # token index where the first group starts
        if ctx.key_mask is not None:
            held = ctx.key_mask[:, :past].sum(-1, keepdim=True)
            begun = held - held % self.factor
        capacity = (new // self.factor + 2) * self.factor  # followed by a group for padding
        at = torch.where(places < 0, capacity, places - begun)[..., None].expand_as(x)
        groups = x.new_zeros(batch, capacity + self.factor, width).scatter(1, at, x)
        groups = groups.view(batch, -1, self.factor, width)
        shares = torch.einsum("bgiw,owi->bgio", groups, self.over_tokens.weight)
        return torch.where(places[..., None] == 0, x, shares.flatten(1, 2).gather(1, at))

    def join(self, shares: Tensor, ctx: PassContext) -> Tensor:
        """Returns the first token and groups: [batch, head, position, dim] to [.., group, dim]."""
        if ctx.key_mask is not None:  # real tokens first, so that groups align
            order = (~ctx.key_mask).int().argsort(stable=True, dim=-1)[:, None, :, None]
            shares = shares.gather(2, order.expand_as(shares))
        batch, heads, length, dim = shares.shape
        first = shares[:, :, :1]
        groups = length // self.factor
        if groups == 0:
            return first
        begin = first.transpose(1, 2).flatten(2) @ self.over_tokens.weight[..., 0].t()
        begin = begin.view(batch, 1, heads, dim)
        whole = torch.cat((begin.transpose(1, 2), shares[:, :, 1 : groups * self.factor]), 2)
        joined = whole.view(batch, heads, groups, self.factor, dim).sum(3)
        bias = self.over_tokens.bias
        assert bias is not None
        return torch.cat((first, joined + bias.view(heads, 1, dim)), 2)


def group_mask(ctx: PassContext, factor: int) -> AttentionMask:
    """Returns the mask: group g >= 1 holds tokens up to factor * g, and later queries see it."""
    if ctx.document_ids is not None or ctx.prefix_length is not None:
        raise UnsupportedError(
            "Memory-compressed attention reads one text per row, from left to right; leave out "
            "`document_ids` and `prefix_length`."
        )
    key = ("groups", factor)
    if key not in ctx.memo:
        ends = torch.arange(len(ctx.k_slot) // factor + 1, device=ctx.k_slot.device) * factor
        places = ctx.text_positions[:, -len(ctx.q_slot) :]
        ctx.memo[key] = with_fully_masked_queries((ends <= places[..., None])[:, None])
    seen: AttentionMask = ctx.memo[key]
    return seen
