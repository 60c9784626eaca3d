"""Prefix tuning and prompt tuning: trained vectors before the text.

The adapter module in `Stack.wrapper` takes part in every forward pass of the stack. A prefix is a
key-value cache that is not empty at the start; a prompt consists of tokens whose vectors are not in
the vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core import Cache, Transformer
from glassformer.core.pass_context import PassContext
from glassformer.core.stack import Stack
from glassformer.errors import UnsupportedError
from glassformer.spec import BlockSpec, ModelSpec, StackSpec


class PrefixKeys(nn.Module):
    """Trained keys and values that are put into an empty cache.

    `weight` has one row per token, [token, layer, key or value, head, dim] flattened, as peft saves
    it. With `hidden`, a small network computes these rows from a smaller `weight`.
    """

    def __init__(self, model: Transformer, tokens: int, hidden: int) -> None:
        super().__init__()
        spec = model.spec.last_stack
        self.layers, self.heads, self.dim = prefix_shape(spec)
        self.twice = model.spec.encoder is not None and model.spec.decoder is not None
        like = next(model.parameters())
        width, made = self.heads * self.dim, self.layers * 2 * self.heads * self.dim
        self.weight = nn.Parameter(torch.zeros(tokens, width if hidden else made).to(like.device))
        self.make = (
            nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, made)).to(
                like.device
            )
            if hidden
            else None
        )

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> None:
        self.weight.copy_(torch.empty(self.weight.shape).normal_(generator=generator))
        if self.make is not None:
            for layer in self.make:
                for tensor in layer.parameters():
                    reach = next(layer.parameters()).shape[1] ** -0.5
                    drawn = torch.empty(tensor.shape).uniform_(-reach, reach, generator=generator)
                    tensor.copy_(drawn)

    def num_virtual_tokens(self, stack: Stack) -> int:
        """Returns how many positions of the stack the prefix occupies."""
        return len(self.weight)

    def rows(self) -> Tensor:
        """Returns the keys and values, one row per token."""
        made: Tensor = self.weight if self.make is None else self.make(self.weight)
        return made

    def pair(self, depth: int) -> int:
        """Returns which of the stored layers' keys and values a layer uses.

        For an encoder-decoder, peft duplicates them and splits them in groups of four, of which it
        uses the first two. Its folders are read in the same way.
        """
        return 2 * depth % self.layers if self.twice else depth

    def prepare(
        self, name: str, stack: Stack, tokens: Tensor, inputs: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any]]:
        """Puts the prefix into an empty cache."""
        if inputs.get("documents") is not None or inputs.get("permutation") is not None:
            raise UnsupportedError(
                "Prefix tuning needs one text per row, in its own order; set data.batching = 'pad'."
            )
        cache: Cache | None = inputs.get("cache")
        if cache is None:
            cache = Cache()
        if cache.length == 0:
            self.begin(cache, len(tokens), stack)
        return tokens, {**inputs, "cache": cache}

    def finish(self, hidden: Tensor, ctx: PassContext) -> Tensor:
        """Returns the hidden states: those of the text alone, since a prefix has none."""
        return hidden

    def begin(self, cache: Cache, batch: int, stack: Stack) -> None:
        """Fills an empty cache with the prefix, as if it were text already processed."""
        rows = self.rows().to(next(stack.parameters()).dtype)
        count = len(rows)
        pairs = rows.view(count, self.layers, 2, self.heads, self.dim).permute(1, 2, 3, 0, 4)
        for depth in range(self.layers):
            k, v = pairs[self.pair(depth)]  # [head, token, dim]
            cache._self[depth] = (k.expand(batch, -1, -1, -1), v.expand(batch, -1, -1, -1))
        cache.length = count
        cache.next_position = torch.full((1, 1), count, device=rows.device)


def prefix_shape(spec: StackSpec) -> tuple[int, int, int]:
    """Returns the numbers of layers and heads and the head size, equal in all layers."""
    blocks = [spec.blocks[index] for index in spec.order]
    shapes = {
        (b.attention.key_heads, b.attention.head_dim) if isinstance(b, BlockSpec) else None
        for b in blocks
    }
    shape = shapes.pop()
    if shapes or shape is None or spec.memory is not None:
        raise UnsupportedError(
            "Prefix tuning needs attention layers of equal size without a memory of their own; "
            "choose another adapter."
        )
    return len(blocks), *shape


class PromptTokens(nn.Module):
    """Trained virtual tokens.

    Placeholder tokens are put before the text, and the embedding replaces their vectors. If an
    encoder reads them, the decoder attends to their hidden states.
    """

    def __init__(self, model: Transformer, tokens: int) -> None:
        super().__init__()
        embed = prompt_stack(model).embed
        table: Tensor = embed.token.weight  # type: ignore[union-attr,assignment]
        self.weight = nn.Parameter(torch.zeros(tokens, table.shape[1], device=table.device))
        self.is_encoder_prompt = model.encoder is not None and model.decoder is not None
        # a head that reads the first token reads the first virtual token, as in peft
        self.first = all(head.pooling == "first" for head in model.spec.heads) and bool(
            model.spec.heads
        )

    def num_virtual_tokens(self, stack: Stack) -> int:
        """Returns how many positions of the stack the prompt occupies."""
        only_sees = self.is_encoder_prompt and any(
            b.cross is not None for b in stack.spec.attention_blocks
        )
        return 0 if only_sees else len(self.weight)

    @torch.no_grad()
    def begin(self, table: Tensor, ids: Tensor) -> None:
        """Initializes the virtual tokens with the embeddings of `ids`."""
        self.weight.copy_(table[ids])

    def prepare(
        self, name: str, stack: Stack, tokens: Tensor, inputs: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any]]:
        """Puts the virtual tokens before the text, and extends masks and positions by them."""
        count, given = len(self.weight), dict(inputs)
        if self.is_encoder_prompt and name == "decoder":
            if given.get("memory_mask") is not None:
                given["memory_mask"] = F.pad(given["memory_mask"], (count, 0), value=True)
            return tokens, given
        cache: Cache | None = given.get("cache")
        if cache is not None and cache.length:
            return tokens, given
        if given.get("documents") is not None or given.get("permutation") is not None:
            raise UnsupportedError(
                "Prompt tuning needs one text per row, in its own order; set data.batching = 'pad'."
            )
        given["cu_seqlens"] = None  # they describe the text without the prompt
        given["virtual_tokens"] = self.weight
        table = stack.spec.embed.position
        real = 1 if table is not None and table.padding_idx == 0 else 0
        front = {"mask": True, "segments": 0, "global_attention_mask": False}
        for key, fill in front.items():
            if given.get(key) is not None:
                given[key] = F.pad(given[key], (count, 0), value=fill)
        if given.get("inputs_embeds") is not None:
            given["inputs_embeds"] = F.pad(given["inputs_embeds"], (0, 0, count, 0))
        if given.get("languages") is not None:
            given["languages"] = F.pad(given["languages"], (count, 0), mode="replicate")
        if given.get("prefix_length") is not None:
            given["prefix_length"] = given["prefix_length"] + count
        if given.get("positions") is not None:
            later = torch.where(given["positions"] < 0, -1, given["positions"] + count)
            before = torch.arange(count, device=tokens.device).expand(len(later), -1)
            given["positions"] = torch.cat((before, later), 1)
        return F.pad(tokens, (count, 0), value=real), given

    def finish(self, hidden: Tensor, ctx: PassContext) -> Tensor:
        """Removes the hidden states of the virtual tokens, unless the decoder attends to them."""
        if ctx.virtual_tokens is None or self.is_encoder_prompt:
            return hidden
        count = len(self.weight)
        if self.first:
            return torch.cat((hidden[:, :1], hidden[:, count + 1 :]), 1)
        return hidden[:, count:]


def prompt_stack(model: Transformer) -> Stack:
    """Returns the stack that reads the prompt: the encoder if there is one."""
    stack = model.encoder if model.encoder is not None else model.decoder
    assert stack is not None
    if not _embeds_tokens(model.spec) or stack.spec.memory is not None:
        raise UnsupportedError(
            "Prompt tuning needs one table of token embeddings and no memory, which this model "
            "does not have; choose another adapter."
        )
    return stack


def _embeds_tokens(spec: ModelSpec) -> bool:
    stack = spec.encoder or spec.last_stack
    embed = stack.embed
    return bool(embed.vocabulary) and (getattr(embed, "adaptive", None), embed.bag) == (None, None)
