"""The whole network, and its forward pass from token ids to logits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from glassformer.core.audio_image_embedding import PatchEmbedding, unpatchify
from glassformer.core.cache import Cache
from glassformer.core.heads import Head, pooling_positions
from glassformer.core.hooks import Tap
from glassformer.core.input_rules import (
    find_global_tokens,
    find_question,
    last_tokens,
    mask_question,
    shifted_right,
)
from glassformer.core.linear import Linear
from glassformer.core.pass_context import TreeMask
from glassformer.core.permutation import Permutation
from glassformer.core.span_head import SpanHead, make_head
from glassformer.core.stack import Stack
from glassformer.core.stack_pass import run
from glassformer.errors import InputError, UnsupportedError
from glassformer.spec import ModelSpec, PatchEmbeddingSpec, head_among


@dataclass
class ModelOutput:
    """The result of a forward pass.

    Attributes:
        hidden: The last hidden state.
        logits: The output of the first computed head that has outputs.
        heads: The output of every computed head, by name.
        memory: The encoder's output, which a later call accepts instead of the source.
    """

    hidden: Tensor
    logits: Tensor | None = None
    heads: dict[str, Tensor] = field(default_factory=dict)
    memory: Tensor | None = None


class Transformer(nn.Module):
    """The network that a `ModelSpec` describes, with its stacks and heads under the same names."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        memory_width = (spec.encoder or spec.last_stack).out_width
        self.encoder = None if spec.encoder is None else Stack(spec.encoder, memory_width)
        self.decoder = None if spec.decoder is None else Stack(spec.decoder, memory_width)
        width = spec.last_stack.out_width
        self.heads = nn.ModuleDict({head.name: make_head(width, head) for head in spec.heads})
        for kept, follower in spec.tied_weights:
            owner, _, leaf = follower.rpartition(".")
            setattr(self.get_submodule(owner), leaf, self.get_parameter(kept))

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        segments: Tensor | None = None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        cache: Cache | None = None,
        tap: Tap | None = None,
        *,
        positions: Tensor | None = None,
        documents: Tensor | None = None,
        runs: Tensor | None = None,
        prefix: Tensor | None = None,
        languages: Tensor | None = None,
        permutation: Permutation | None = None,
        branches: TreeMask | None = None,
        global_tokens: Tensor | None = None,
        memory: Tensor | None = None,
        hide: Tensor | None = None,
        at: Tensor | None = None,
        heads: Collection[str] | None = None,
        project: bool = True,
        auxiliary: bool = False,
        tail: int | None = None,
        eager: bool = False,
    ) -> ModelOutput:
        """Runs the network.

        Args:
            tokens: Token ids of [batch, position], or [batch, choice, position] for multiple
                choice; for models of audio a spectrogram of [batch, band, frame], for models of
                images [batch, channel, height, width].
            mask: True at real tokens, [batch, position]. With a cache it covers only the new
                tokens; for audio and images it covers the embedded vectors.
            segments: Segment id of each token.
            source: The encoder's input for an encoder-decoder; the story of [batch, sentence, word]
                for a memory network.
            source_mask: True at real elements of `source`.
            cache: Holds the keys and values of earlier tokens, and is extended.
            tap: Called at every hook point; see `core.hooks`.
            positions: Position of each token, instead of counting from the mask.
            documents: Document number of each token. Attention stays within equal numbers, and
                positions restart in each document.
            runs: Offsets in the flattened batch at which texts and padding begin; must agree with
                `mask` and `documents`.
            prefix: [batch]: number of first tokens of a row that all its tokens attend to.
            languages: Language id of each token.
            permutation: The factorization order. If it has targets, hidden states and logits are
                theirs.
            branches: The new tokens are alternative continuations, not one text.
            global_tokens: True at tokens that attend to all and are attended to by all.
            memory: The encoder's output, instead of `source`.
            hide: True at image patches to mask.
            at: [batch]: the position read by heads that read a single one.
            heads: Names of the only heads to compute.
            project: If False, each head returns the input of its output layer.
            auxiliary: Also compute heads that are used only in training.
            tail: Heads that read every position read only this many last ones.
            eager: Use plain attention instead of fused kernels.
        """
        name, stack = self._last
        lead = tokens.shape[: -stack.embed.axes]
        tokens = tokens.reshape(-1, *tokens.shape[len(lead) :])
        mask, segments, documents, languages, global_tokens = (
            None if x is None else x.reshape(-1, x.shape[-1])
            for x in (mask, segments, documents, languages, global_tokens)
        )
        mask, source_mask = (None if x is None else x.bool() for x in (mask, source_mask))
        global_tokens = find_global_tokens(self.spec, tokens, mask, global_tokens, cache)
        question = find_question(self.spec, tokens, mask)
        if question is not None and segments is None:
            segments = (~question).long()
        text, text_mask = tokens, mask
        options = {"tap": tap, "eager": eager}
        if self.spec.shift_right and source is None and memory is None:
            source, source_mask = tokens, mask
            from_last = self.spec.decoder_start == "last_token"
            start = last_tokens(tokens, mask) if from_last else self.spec.tokens.start
            tokens = shifted_right(tokens, mask, start)
        if self.encoder is not None and self.decoder is not None:
            if source is not None:
                memory = self.encode(source, source_mask, **options)
            elif memory is None and not (cache is not None and cache.has_cross_attention):
                raise InputError(
                    "This model has an encoder and a decoder: give the encoder's tokens as "
                    "`source` and the decoder's as `tokens`."
                )
        embed = stack.spec.embed
        if hide is not None and not (
            isinstance(embed, PatchEmbeddingSpec) and embed.has_mask_token
        ):
            raise InputError("This model has no vector for hidden patches; leave out `hide`.")
        asked = [
            head
            for head in self.spec.heads
            if (auxiliary or not head.auxiliary if heads is None else head.name in heads)
        ]
        inner = any(head.num_weighted_layers or head.depth is not None for head in asked)
        states: list[Tensor] | None = [] if inner else None
        hidden = run(
            name,
            stack,
            tokens,
            mask,
            segments=segments,
            languages=languages,
            positions=positions,
            documents=documents,
            cu_seqlens=runs,
            prefix_length=prefix,
            permutation=permutation,
            tree_mask=branches,
            global_attention_mask=global_tokens,
            encoder_hidden_states=memory,
            memory_mask=source_mask,
            memory_tokens=source,
            memory_tokens_mask=source_mask,
            bool_masked_pos=hide,
            hidden_states=states,
            cache=cache,
            **options,
        )
        if stack.spec.embed.bag is not None:  # a text becomes one vector
            text, text_mask = text[:, :1], None
        results: dict[str, Tensor] = {}
        if permutation is not None and permutation.targets is not None:
            text = permutation.targets
            text_mask = torch.ones_like(text, dtype=torch.bool)
        for head in asked:
            where = pooling_positions(head, hidden, text, text_mask, self.spec.tokens)
            if at is not None and where is not None and where.dtype != torch.bool:
                where = at.flatten()
            module = self.heads[head.name]
            assert isinstance(module, Head)
            read = hidden if states is None else module.select_layer(hidden, states)
            read = read if tail is None or where is not None else read[:, -tail:]
            if not project:
                found = module.features(read, where)
                results[head.name] = found.view(*lead, *found.shape[1:])
                continue
            result = module(read, where)
            if question is not None and head.after_question:
                result = mask_question(result, question, text_mask)
            if isinstance(module, SpanHead):
                answers = module.search(hidden, result, text_mask)
                results |= {f"{head.name}.{key}": value for key, value in answers.items()}
            if head.pixel_shuffle and isinstance(stack.embed, PatchEmbedding):
                result = unpatchify(result, stack.embed.grid(text), head.pixel_shuffle)
            shape = lead if head.multiple_choice else (*lead, *result.shape[1:])
            results[head.name] = result.view(shape)
        answered = (
            results[head.name] for head in asked if project and head.num_outputs is not None
        )
        logits = next(answered, None)
        return ModelOutput(hidden.view(*lead, *hidden.shape[1:]), logits, results, memory)

    def encode(self, source: Tensor, source_mask: Tensor | None = None, **options: Any) -> Tensor:
        """Runs the encoder alone, and returns the hidden states that cross-attention reads."""
        assert self.encoder is not None
        return run("encoder", self.encoder, source, source_mask, **options)

    def readout(self, residual: Tensor, head: str | None = None) -> Tensor:
        """Applies the final norm and a head to the residual stream of any layer (logit lens).

        Args:
            residual: [batch, position, width].
            head: Name of a head that reads every position. Default: the first such head.
        """
        heads = [spec for spec in self.spec.heads if spec.pooling == "each"]
        if not heads:
            raise UnsupportedError("This model has no head that reads every position.")
        name = head_among(heads, head, " that reads every position").name
        stack, width = self._last[1], residual.shape[-1]
        if width != stack.spec.widths[-1]:
            raise InputError(
                f"This layer's vectors have {width} numbers and the head reads "
                f"{stack.spec.widths[-1]}."
            )
        logits: Tensor = self.heads[name](stack.norm(residual), None)
        return logits

    def remember(self) -> Cache:
        """Returns an empty cache with the memory limits of the model's spec."""
        memory = self.spec.last_stack.memory
        return Cache() if memory is None else Cache(memory.limit, memory.reuse_length)

    def pack(self) -> Self:
        """Packs the linear layers for inference on a CPU: about 10% faster, for twice their memory.

        Projections of position tables are also kept. Training and saving use the plain weights.
        """
        for module in self.modules():
            if isinstance(module, Linear | Stack):
                module.pack()
        return self

    @property
    def _last(self) -> tuple[str, Stack]:
        if self.decoder is not None:
            return "decoder", self.decoder
        assert self.encoder is not None
        return "encoder", self.encoder
