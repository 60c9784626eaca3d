"""Memory-compressed attention (Liu et al., 2018). Of every few keys one is made.

A convolution whose kernel is as long as its stride joins `factor` neighbors; queries stay as many
as they were. As tensor2tensor has it, a query sees the joined keys that lie wholly before it, and
the text's first token as it is, so that the first queries see something. A joined key is the sum of
what its tokens bring (`share`), worked out once, when a token comes, and kept in the cache.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from glassformer.core.attention.mask import AttentionMask, with_blind
from glassformer.core.pass_context import PassContext
from glassformer.errors import GlassformerError


class KeyCompression(nn.Module):
    def __init__(self, width: int, factor: int) -> None:
        super().__init__()
        self.factor = factor
        self.over_tokens = nn.Conv1d(width, width, factor, stride=factor)

    def share(self, x: Tensor, ctx: PassContext) -> Tensor:
        """What each token adds to the one it becomes part of, [batch, position, width]; the first
        token stays as it is."""
        batch, new, width = x.shape
        places = ctx.places[:, -new:]
        past = len(ctx.k_slot) - new
        begun: Tensor | int = past - past % self.factor  # the place of the first group at hand
        if ctx.key_mask is not None:
            held = ctx.key_mask[:, :past].sum(-1, keepdim=True)
            begun = held - held % self.factor
        room = (new // self.factor + 2) * self.factor  # and beyond it a group for padding
        at = torch.where(places < 0, room, places - begun)[..., None].expand_as(x)
        groups = x.new_zeros(batch, room + self.factor, width).scatter(1, at, x)
        groups = groups.view(batch, -1, self.factor, width)
        shares = torch.einsum("bgiw,owi->bgio", groups, self.over_tokens.weight)
        return torch.where(places[..., None] == 0, x, shares.flatten(1, 2).gather(1, at))

    def join(self, shares: Tensor, ctx: PassContext) -> Tensor:
        """The first token, then the groups: [batch, head, position, dim] to [.., group, dim]."""
        if ctx.key_mask is not None:  # real tokens to the front, so that groups stand alike
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


def visible_groups(ctx: PassContext, factor: int) -> AttentionMask:
    """Group g >= 1 holds the tokens up to factor * g; a query sees it from the next token on."""
    if ctx.documents is not None or ctx.prefix is not None:
        raise GlassformerError(
            "Attention with compressed keys reads one text a row, from left to right; leave "
            "`documents` and `prefix` out."
        )
    key = ("groups", factor)
    if key not in ctx.memo:
        ends = torch.arange(len(ctx.k_slot) // factor + 1, device=ctx.k_slot.device) * factor
        places = ctx.places[:, -len(ctx.q_slot) :]
        ctx.memo[key] = with_blind((ends <= places[..., None])[:, None])
    seen: AttentionMask = ctx.memo[key]
    return seen
