"""Beam search with the beams of a request in one row of the batch.

The beams share the prompt and the cross-attention input, and every generated token is stored once,
however many beams continue it. When beams are reordered no cache moves: a mask says which keys
belong to the history of each beam.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.core import Transformer
from glassformer.core.pass_context import TreeMask
from glassformer.generate.runner import Runner
from glassformer.generate.strategy import GenerationRequest
from glassformer.spec import (
    CAUSAL,
    AlibiSpec,
    AttentionPattern,
    BlockSpec,
    RotarySpec,
    T5BiasSpec,
    TokenEmbeddingSpec,
)


def branches_fit(net: Transformer) -> bool:
    """Returns whether the decoder's output for a token depends only on the keys it attends to."""
    stack = net.spec.decoder
    return (
        stack is not None
        and stack.memory is None
        and stack.convolution is None
        and isinstance(stack.embed, TokenEmbeddingSpec)
        and not stack.embed.zero_padding
        and all(
            isinstance(layer, BlockSpec)
            and isinstance(layer.pattern, AttentionPattern)
            and (layer.pattern.right, layer.pattern.block) == (0, None)
            and layer.attention.compression_factor is None
            and not layer.attention.separate_global_projections
            and isinstance(layer.position, RotarySpec | T5BiasSpec | AlibiSpec | None)
            for layer in stack.blocks
        )
    )


def counts_slots(net: Transformer) -> bool:
    """Returns whether attention depends on distances, so that key slots must agree in all rows."""
    assert net.spec.decoder is not None
    return any(
        block.pattern != CAUSAL or isinstance(block.position, T5BiasSpec | AlibiSpec)
        for block in net.spec.decoder.attention_blocks
    )


class BranchRunner(Runner):
    """Runner that keeps the `width` beams of a request in one row, with a tree mask."""

    def __init__(self, net: Transformer, width: int, *, chunk: int | None = None) -> None:
        super().__init__(net, chunk=chunk)
        self.width = width
        self.joins = not counts_slots(net)
        assert net.spec.decoder is not None
        table = net.spec.decoder.embed.position
        self.pad = (
            None if table is None else table.padding_idx
        )  # padding token, which takes no position
        self.own = torch.ones(0, width, 0, dtype=torch.bool, device=self.device)
        self.slots = torch.zeros(0, dtype=torch.long, device=self.device)  # [key]
        self.position = torch.zeros(0, width, dtype=torch.long, device=self.device)

    def read(self, requests: Sequence[GenerationRequest], width: int) -> Tensor:
        logits = super().read(requests, 1)
        cache = self.cache
        assert cache is not None and cache.next_position is not None
        before, length, new = self.own.shape[2], cache.length, len(requests)
        old = F.pad(self.own, (length - before, 0))
        self.own = torch.cat((old, old.new_ones(new, width, length)))
        fresh = cache.next_position.expand(cache.batch_size, width)[-new:]
        self.position = torch.cat((self.position, fresh))
        self.slots = torch.arange(length, device=self.device)
        return logits.repeat_interleave(width, 0)

    def step(self, parents: Tensor, tokens: Tensor) -> Tensor:
        assert self.cache is not None
        tokens = tokens.view(-1, self.width)
        if len(tokens) != self.cache.batch_size:
            self.cache.select(parents[:: self.width] // self.width)
        itself = torch.eye(self.width, dtype=torch.bool, device=self.device)
        own = self.own.flatten(0, 1)[parents].view(len(tokens), self.width, -1)
        self.own = torch.cat((own, itself.expand(len(tokens), -1, -1)), 2)
        slot = self.slots[-1:] + 1 if not self.joins else self.slots[-1:]
        self.slots = torch.cat((self.slots, slot.expand(self.width)))
        position = self.position.flatten()[parents].view_as(tokens)
        real = torch.ones_like(tokens, dtype=torch.bool) if self.pad is None else tokens != self.pad
        self.position = position + real
        out = self.net.decode(
            tokens,
            cache=self.cache,
            position_ids=torch.where(real, position, -1),
            tree_mask=TreeMask(self.own, self.slots),
        )
        assert out.logits is not None
        logits: Tensor = out.logits.flatten(0, 1).float()
        return logits

    def forget(self) -> None:
        super().forget()
        self.own, self.slots, self.position = self.own[:0, :, :0], self.slots[:0], self.position[:0]
