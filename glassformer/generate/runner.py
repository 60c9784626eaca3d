"""Forward passes of a model with its key-value cache, as the decoding loop uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.core import Cache, ModelOutput, Transformer
from glassformer.errors import InputError
from glassformer.generate.encoded_source import EncodedSource, lay_sources
from glassformer.generate.prefix import PrefixCache, read_once, taken
from glassformer.generate.strategy import GenerationRequest


class Runner:
    """Runs prefill and decoding steps; rows may leave and join the batch between steps.

    Args:
        net: The model.
        chunk: Prompt tokens per forward pass; None reads a prompt as a whole.
        bidirectional_prefix: Whether prompt tokens attend to the whole prompt.
    """

    joins = True  # whether rows may join while others are being decoded

    def __init__(
        self, net: Transformer, *, chunk: int | None = None, bidirectional_prefix: bool = False
    ) -> None:
        self.net = net
        self.chunk = chunk
        self.bidirectional_prefix = bidirectional_prefix
        self.device = next(net.parameters()).device
        self.cache: Cache | None = None
        self.prefix_cache: PrefixCache | None = None  # for prompts with common prefixes

    def read(self, requests: Sequence[GenerationRequest], width: int) -> Tensor:
        """Prefills the prompts of new requests; returns the logits of their next tokens.

        Each request gets `width` rows.
        """
        prompts = [request.prompt for request in requests]
        if self.prefix_cache is not None:
            cache, logits = read_once(self.prefix_cache, prompts, self.into)
        else:
            cache, source = Cache(), [request.source for request in requests]
            logits = self.into(prompts, cache, None if source[0] is None else source)
        if width > 1:
            rows = torch.arange(len(requests), device=self.device).repeat_interleave(width)
            cache.select(rows)
            logits = logits[rows]
        if self.cache is None:
            self.cache = cache
        else:
            self.cache.join(cache)
        return logits

    def into(
        self, rows: Sequence[Sequence[int]], cache: Cache, sources: Sequence[Any] | None = None
    ) -> Tensor:
        """Appends tokens to the rows of a cache, chunk by chunk; returns the next-token logits."""
        tokens, mask = padded(rows, self.device, "left")
        memory = source_mask = None
        if sources is not None and isinstance(sources[0], EncodedSource):
            lay_sources(cache, sources)
        elif sources is not None:
            source, source_mask = joined(sources, self.device)
            memory = self.net.encode(source, source_mask)
        length = tokens.shape[1]
        prefix = (
            torch.full((len(rows),), length, device=self.device)
            if self.bidirectional_prefix
            else None
        )
        chunk = self.chunk or length
        out = None
        for start in range(0, length, chunk):
            part = slice(start, start + chunk)
            out = self.net.decode(
                tokens[:, part],
                attention_mask=None if mask is None else mask[:, part],
                encoder_hidden_states=memory if start == 0 else None,
                encoder_attention_mask=source_mask,
                prefix_length=prefix,
                cache=cache,
                logits_to_keep=1,
            )
        assert out is not None
        return last_logits(out)

    def step(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """Runs one decoding step; returns the next-token logits.

        Args:
            parents: [row]: the previous row that each row continues.
            tokens: [row]: the newest token of each row.
        """
        assert self.cache is not None
        if len(parents) != self.cache.batch_size or not torch.equal(
            parents, torch.arange(len(parents), device=parents.device)
        ):
            self.cache.select(parents)
        out = self.net.decode(tokens[:, None], cache=self.cache, logits_to_keep=1)
        return last_logits(out)

    def forget(self) -> None:
        self.cache = None

    def held(self) -> Cache:
        """Returns the cache of the rows being decoded."""
        assert self.cache is not None
        return self.cache

    def keep(self, text: Sequence[int]) -> None:
        """Stores the text of the only row in the prefix cache."""
        prefix_cache = self.prefix_cache
        if (
            prefix_cache is not None
            and len(text) >= prefix_cache.least
            and prefix_cache.is_of(self.net)
        ):
            prefix_cache.keep(taken(self.held(), 0, tuple(text)))


def last_logits(out: ModelOutput) -> Tensor:
    """Returns the logits of the last position of each row, in float32."""
    assert out.logits is not None
    return out.logits[:, -1].float()


def is_edited(net: Transformer) -> bool:
    """Returns whether activations are edited in the forward pass (see `glassformer.inside`).

    Only the plain runner supports that.
    """
    stacks = [stack for stack in (net.encoder, net.decoder) if stack is not None]
    return any(getattr(stack.active_wrapper, "edits", None) for stack in stacks)


def joined(sources: Sequence[Any], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Batches the encoder inputs of requests: token ids, or spectrograms of equal length."""
    if not isinstance(sources[0], Tensor):
        return padded(sources, device, "right")
    if len({source.shape for source in sources}) > 1:
        raise InputError(
            "Sounds of different lengths cannot be read side by side; let model.processor pad them."
        )
    return torch.stack(list(sources)).to(device), None


def padded(
    rows: Sequence[Sequence[int]], device: torch.device, side: str
) -> tuple[Tensor, Tensor | None]:
    """Pads sequences to ids of [row, slot], and returns them with the mask of real tokens.

    The mask is None if there is no padding.
    """
    longest = max(map(len, rows))
    tokens = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.bool)
    for i, row in enumerate(rows):
        at = slice(longest - len(row), longest) if side == "left" else slice(0, len(row))
        tokens[i, at] = torch.tensor(list(row), dtype=torch.long)
        mask[i, at] = True
    return tokens.to(device), None if mask.all() else mask.to(device)
