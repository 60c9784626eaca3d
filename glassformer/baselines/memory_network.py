"""A hop of a memory network: reads an external memory and adds the result to the state."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from glassformer.core.attention.mask import mask_of_keys
from glassformer.core.attention.self_attention import CoreAttention
from glassformer.core.embedding import Embedding
from glassformer.core.linear import Linear
from glassformer.core.pass_context import PassContext
from glassformer.errors import InputError
from glassformer.spec import AttentionSpec, MemoryHopSpec


class MemoryNetworkHop(nn.Module):
    """Attention with one head and no projections; keys and values are embedded sentences."""

    def __init__(self, width: int, spec: MemoryHopSpec) -> None:
        super().__init__()
        self.key = Embedding(width, spec.memory)
        self.value = Embedding(width, spec.memory)
        self.attend = CoreAttention(AttentionSpec(heads=1, head_dim=width, scale=1.0))
        self.project = Linear(width, width, bias=False) if spec.project else None
        self.sentences = spec.memory.position.length if spec.memory.position is not None else None

    def forward(self, x: Tensor, ctx: PassContext) -> Tensor:
        """Returns the new state, given the state x of [batch, 1, width]."""
        x = ctx.hook_point("resid_pre", x)
        story, words = self.memory_tokens(ctx)
        real = words.any(-1)
        age = real.flip(-1).cumsum(-1).flip(-1) - 1  # 0 is the last sentence, counting backward
        inside = replace(ctx, q_pos=age, key_mask=words, tap=None)
        q = ctx.hook_point("q", x[:, None])  # [batch, head, position, width]
        k = ctx.hook_point("k", self.key(story, inside)[:, None])
        v = ctx.hook_point("v", self.value(story, inside)[:, None])
        answer = self.attend(q, k, v, ctx, mask_of_keys(real))[:, 0]
        kept = x if self.project is None else self.project(x)
        return ctx.hook_point("resid_post", kept + ctx.hook_point("attn_out", answer))

    def memory_tokens(self, ctx: PassContext) -> tuple[Tensor, Tensor]:
        """Returns word ids and the mask of real words, both [batch, sentence, word]."""
        if ctx.memory_tokens is None or ctx.memory_tokens.ndim != 3:
            raise InputError(
                "This model answers from a story: give its words as `memory_tokens`, of the "
                "shape [batch, sentence, word]."
            )
        if self.sentences is not None and ctx.memory_tokens.shape[1] > self.sentences:
            raise InputError(
                f"The story has {ctx.memory_tokens.shape[1]} sentences, and the model's memory "
                f"holds {self.sentences}; give the last ones."
            )
        if ctx.memory_tokens_mask is None:
            return ctx.memory_tokens, torch.ones_like(ctx.memory_tokens, dtype=torch.bool)
        return ctx.memory_tokens, ctx.memory_tokens_mask
