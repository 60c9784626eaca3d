"""The whole network, and its forward pass from token ids to logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack

from torch import Tensor, nn

from glassformer.core.cache import Cache
from glassformer.core.head_outputs import HeadInputs
from glassformer.core.heads import Head
from glassformer.core.hooks import ActivationCapture, Tap, chain
from glassformer.core.input_rules import (
    as_mask,
    check_inputs,
    default_decoder_input,
    find_global_tokens,
    find_question,
    main_input,
    rows,
)
from glassformer.core.linear import Linear
from glassformer.core.loss import heads_loss
from glassformer.core.model_output import ModelOutput
from glassformer.core.pass_options import PassOptions, check_options, wanted_heads
from glassformer.core.span_head import make_heads
from glassformer.core.stack import Stack
from glassformer.core.stack_pass import prepare_pass
from glassformer.errors import InputError, UnsupportedError
from glassformer.spec import ModelSpec, head_among


class Transformer(nn.Module):
    """The network that a `ModelSpec` describes, with its stacks and heads under the same names."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        memory_width = (spec.encoder or spec.last_stack).out_width
        self.encoder = None if spec.encoder is None else Stack(spec.encoder, memory_width)
        self.decoder = None if spec.decoder is None else Stack(spec.decoder, memory_width)
        self.heads = make_heads(spec)
        for kept, follower in spec.tied_weights:
            owner, _, leaf = follower.rpartition(".")
            setattr(self.get_submodule(owner), leaf, self.get_parameter(kept))

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        inputs_embeds: Tensor | None = None,
        pixel_values: Tensor | None = None,
        input_features: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        past_key_values: Cache | None = None,
        labels: Tensor | Mapping[str, Tensor] | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        logits_to_keep: int | None = None,
        tap: Tap | None = None,
        **options: Unpack[PassOptions],
    ) -> ModelOutput:
        """Returns the output of the network.

        An encoder-decoder reads `input_ids` with its encoder and `decoder_input_ids` with its
        decoder. Any other model reads `input_ids` with its only stack.

        Args:
            input_ids: Token ids of [batch, position], or [batch, choice, position] for multiple
                choice.
            attention_mask: Nonzero at real tokens of `input_ids`. With a cache it covers the new
                tokens, or the cached ones as well; for audio and images it covers the embedded
                vectors.
            token_type_ids: Segment id of each token.
            position_ids: Position of each token of the last stack, instead of counting them.
            inputs_embeds: [batch, position, width]: vectors of the token table, instead of
                `input_ids`.
            pixel_values: [batch, channel, height, width], for models of images.
            input_features: Spectrograms of [batch, band, frame], for models of audio.
            decoder_input_ids: The decoder's token ids, [batch, position].
            decoder_attention_mask: Nonzero at real tokens of `decoder_input_ids`.
            encoder_hidden_states: The encoder's output, instead of its input.
            past_key_values: Holds the keys and values of earlier tokens, and is extended.
            labels: Targets of the first head, or of several heads by name; see `core.loss`. Those
                of an encoder-decoder, shifted right, are the decoder's input if none is given.
            output_hidden_states: Returns the hidden states of every layer.
            output_attentions: Returns the attention weights of every layer.
            logits_to_keep: Heads that read every position read only this many last ones.
            tap: Called at every hook point; see `core.hooks`.
            **options: See `PassOptions`.
        """
        check_options(options)
        check_inputs(self.spec, input_ids, decoder_input_ids, encoder_hidden_states)
        cache = past_key_values
        if cache is None and options.get("use_cache"):
            cache = self.new_cache()
        patterns = ActivationCapture("*.pattern") if output_attentions else None
        shared: dict[str, Any] = {
            "tap": tap if patterns is None else chain(tap, patterns),
            "eager": options.get("attn_implementation") == "eager",
        }
        tokens, embeds = main_input(
            self.spec, input_ids, inputs_embeds, pixel_values, input_features
        )
        mask, memory = as_mask(attention_mask), encoder_hidden_states
        memory_mask = as_mask(options.get("encoder_attention_mask"))
        encoder_states: list[Tensor] | None = None
        text, text_mask = tokens, mask  # what the heads read
        if self.encoder is not None and self.decoder is not None:
            memory_mask = mask if memory_mask is None else memory_mask
            if tokens is not None:
                encoder_states = [] if output_hidden_states else None
                memory = self.encode(
                    tokens, mask, inputs_embeds=embeds, hidden_states=encoder_states, **shared
                )
            elif memory is None and not (cache is not None and cache.has_cross_attention):
                raise InputError(
                    "This model has an encoder and a decoder: give the encoder's tokens as "
                    "`input_ids` and the decoder's as `decoder_input_ids`."
                )
            if decoder_input_ids is None:
                decoder_input_ids = default_decoder_input(self.spec, tokens, mask, labels)
                decoder_attention_mask = mask if self.spec.shift_right else None
            tokens, embeds, mask = decoder_input_ids, None, as_mask(decoder_attention_mask)
            if not self.spec.shift_right:
                text, text_mask = tokens, mask
        assert tokens is not None and text is not None
        name, stack = self._last
        axes = stack.embed.axes if embeds is None else 1
        lead = text.shape[:-axes]  # [batch], or [batch, choice]
        tokens, text = (x.reshape(-1, *x.shape[-axes:]) for x in (tokens, text))
        embeds = None if embeds is None else embeds.reshape(-1, *embeds.shape[-2:])
        mask = rows(mask)
        if mask is not None and cache is not None and cache.length:
            mask = mask[:, -tokens.shape[1] :]  # it may cover the cached tokens, too
        text_mask = rows(text_mask) if self.spec.shift_right else mask
        global_tokens = find_global_tokens(
            self.spec, text, text_mask, rows(options.get("global_attention_mask")), cache
        )
        question = find_question(self.spec, text, text_mask)
        if question is not None and token_type_ids is None:
            token_type_ids = (~question).long()
        heads = wanted_heads(self.spec, options)
        inner = any(head.num_weighted_layers or head.depth is not None for head in heads)
        states: list[Tensor] | None = [] if inner or output_hidden_states else None
        prepared = prepare_pass(
            name,
            stack,
            tokens,
            mask,
            inputs_embeds=embeds,
            segments=rows(token_type_ids),
            languages=rows(options.get("language_ids")),
            positions=rows(position_ids),
            documents=rows(options.get("document_ids")),
            cu_seqlens=options.get("cu_seqlens"),
            prefix_length=options.get("prefix_length"),
            permutation=options.get("permutation"),
            tree_mask=options.get("tree_mask"),
            global_attention_mask=global_tokens,
            encoder_hidden_states=memory,
            memory_mask=memory_mask,
            memory_tokens=options.get("memory_tokens"),
            memory_tokens_mask=options.get("memory_tokens_mask"),
            bool_masked_pos=options.get("bool_masked_pos"),
            hidden_states=states,
            cache=cache,
            **shared,
        )
        hidden = prepared.finish(stack(*prepared.inputs))
        given = (options, stack, self.spec.tokens)
        reads = (hidden, states, memory, text, text_mask, question, lead, logits_to_keep)
        read = HeadInputs(*reads, *given)
        results: dict[str, Tensor] = {}
        features = options.get("return_features")
        for spec in heads:
            head = self.heads[spec.name]
            assert isinstance(head, Head)
            if features:
                results[spec.name] = read.features(head)
            else:
                results |= read.outputs(head, head(*read.of(head)))
        scored = [h for h in heads if h.num_outputs is not None and not features]
        output = ModelOutput(
            logits=results[scored[0].name] if scored else None,
            last_hidden_state=hidden.view(*lead, *hidden.shape[1:]),
            encoder_last_hidden_state=memory,
            past_key_values=cache,
            head_outputs=results,
        )
        if labels is not None:
            output.loss = heads_loss(
                self.spec, scored, results, labels, text_mask, self.problem_type
            )
        if output_hidden_states:
            output.set_hidden_states(hidden, states, encoder_states)
        if patterns is not None:
            output.set_attentions(patterns, name)
        return output

    def encode(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **options: Any
    ) -> Tensor:
        """Returns the encoder's hidden states, [batch, position, width], for cross-attention.

        Args:
            input_ids: Token ids of [batch, position].
            attention_mask: True at real tokens.
            **options: Further arguments of `core.stack_pass.prepare_pass`.
        """
        if self.encoder is None:
            raise UnsupportedError("This model has no encoder; call `decode`.")
        prepared = prepare_pass("encoder", self.encoder, input_ids, attention_mask, **options)
        return prepared.finish(self.encoder(*prepared.inputs))

    def decode(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        cache: Cache | None = None,
        **options: Any,
    ) -> ModelOutput:
        """Returns the output of the decoder of an encoder-decoder, or of the only stack.

        Args:
            input_ids: Token ids of [batch, position].
            attention_mask: True at real tokens.
            encoder_hidden_states: The encoder's output.
            encoder_attention_mask: True at real positions of the encoder's output.
            cache: Holds the keys and values of earlier tokens, and is extended.
            **options: Further arguments of `forward`.
        """
        if self.encoder is None or self.decoder is None:
            inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        else:
            inputs = {
                "attention_mask": encoder_attention_mask,
                "decoder_input_ids": input_ids,
                "decoder_attention_mask": attention_mask,
                "encoder_hidden_states": encoder_hidden_states,
            }
        output: ModelOutput = self(**inputs, past_key_values=cache, **options)
        return output

    @property
    def problem_type(self) -> str | None:
        """What the labels of a classification head mean; None: their dtype decides."""
        return None

    def readout(self, residual: Tensor, head: str | None = None) -> Tensor:
        """Returns a head's logits of the residual stream at any layer (logit lens).

        Args:
            residual: [batch, position, width].
            head: Name of a head that reads every position. Default: the first such head.
        """
        heads = [h for h in self.spec.heads if h.pooling == "each" and h.stack == "last"]
        if not heads:
            raise UnsupportedError("This model has no head that reads every position.")
        name = head_among(heads, head, " that reads every position").name
        stack, width = self._last[1], residual.shape[-1]
        if width != stack.spec.widths[-1]:
            raise InputError(
                f"The vectors of this layer have {width} numbers, and the head needs "
                f"{stack.spec.widths[-1]}."
            )
        logits: Tensor = self.heads[name](stack.norm(residual), None)
        return logits

    def new_cache(self) -> Cache:
        """Returns an empty cache with the memory limits of the model's spec."""
        memory = self.spec.last_stack.memory
        return Cache() if memory is None else Cache(memory.limit, memory.reuse_length)

    def pack(self) -> Self:
        """Returns the model with packed linear layers: faster on a CPU, for twice their memory.

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
