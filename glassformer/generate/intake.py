"""Conversion of prompts and settings into generation requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from glassformer.core import Transformer
from glassformer.core.audio_image_embedding import SignalEmbedding
from glassformer.errors import ConfigError, GlassformerError, InputError, UnsupportedError
from glassformer.generate.config import DEFAULT_NEW_TOKENS, GenerationConfig, make_generation_config
from glassformer.generate.context import context_length, extension
from glassformer.generate.few_shot import example_separator, few_shot_prompt
from glassformer.generate.listen import NO_TIMES, beginning, tokens_of
from glassformer.generate.prompt import Prompt, as_ids
from glassformer.generate.strategy import GenerationRequest
from glassformer.text import Tokenizer
from glassformer.text.unknown import warned


class RequestBuilder:
    """Validates prompts and settings and makes requests of them."""

    def __init__(
        self, net: Transformer, tokenizer: Tokenizer | None, saved: Mapping[str, Any]
    ) -> None:
        if net.decoder is None or net.spec.lm_head is None:
            raise UnsupportedError(
                "This model cannot write: it needs a decoder and a language-model head."
            )
        self.net, self.tokenizer, self.saved = net, tokenizer, saved
        self.translates = net.encoder is not None
        self.listens = net.encoder is not None and isinstance(net.encoder.embed, SignalEmbedding)

    def resolve_config(self, given: Mapping[str, Any]) -> GenerationConfig:
        """Returns the configuration for the user's settings, checked against the model."""
        special = self.net.spec.tokens
        known = {
            "bos_token_id": special.bos,
            "eos_token_id": special.eos,
            "pad_token_id": special.pad,
            "decoder_start_token_id": special.start,
        }
        found = make_generation_config({**known, **self.saved}, given)
        spoken = ("source_language", "target_language")
        textual = ("stop_strings", "regex", "control", "examples")
        for name in (*textual, *(() if self.listens else spoken)):
            if getattr(found, name) and self.tokenizer is None:
                raise UnsupportedError(
                    f"{name} needs a tokenizer, and the model's folder has none.",
                    field=name,
                )
        if not self.listens and (found.language or found.task):
            raise ConfigError(
                "language and task are options of speech models; a translation model takes "
                "source_language and target_language."
            )
        if found.return_timestamps:
            found = self.with_timestamps(found)
        if self.listens:
            if found.control or found.examples:
                raise ConfigError(
                    "A speech model has no text prompt; leave control and examples out."
                )
            return found
        if found.examples:
            ends = (*found.stop_strings, example_separator(found.examples))
            found = replace(found, stop_strings=tuple(dict.fromkeys(ends)))
        return self.in_language(found)

    def with_timestamps(self, config: GenerationConfig) -> GenerationConfig:
        """Sets the token before the timestamp tokens, if generation_config.json does not."""
        if not self.listens:
            raise ConfigError("return_timestamps is an option of speech models; leave it out.")
        if config.no_timestamps_token_id is not None:
            return config
        _, known = tokens_of(self.net, self.tokenizer, self.saved)
        if NO_TIMES not in known:
            raise UnsupportedError(
                "return_timestamps needs no_timestamps_token_id in generation_config.json, or a "
                f"tokenizer with {NO_TIMES}.",
                field="return_timestamps",
            )
        return replace(config, no_timestamps_token_id=known[NO_TIMES])

    def in_language(self, config: GenerationConfig) -> GenerationConfig:
        """Sets the language token of a translation as the decoder's start or first token."""
        if config.source_language is None and config.target_language is None:
            return config
        target = self.reads(config)[0].target_tokenizer
        if config.target_language is None or target.language is None:
            return config
        if target.encode("").ids[0] == target.language:
            return replace(config, forced_bos_token_id=target.language)
        return replace(config, decoder_start_token_id=target.language)

    def reads(self, config: GenerationConfig) -> tuple[Tokenizer, str]:
        """Returns the tokenizer for the requested languages, and the prefix for the text."""
        if self.tokenizer is None:
            raise InputError("The model's folder has no tokenizer; give the prompt as token ids.")
        found, before = self.tokenizer.for_translation(
            config.source_language, config.target_language
        )
        return found, before + (found.control_code(config.control) if config.control else "")

    def request(
        self, number: int, prompt: Prompt | None, config: GenerationConfig
    ) -> GenerationRequest:
        source = self.source(prompt, config) if self.translates else None
        ids = self.beginning(source, config) if self.translates else self.ids(prompt, config)
        new = 0 if self.translates else config.max_new_tokens or DEFAULT_NEW_TOKENS
        ids = self.fitting(ids, self.net.decoder, config, new)
        return GenerationRequest(number, tuple(ids), self.most(config)(len(ids)), source)

    def source(self, prompt: Prompt | None, config: GenerationConfig) -> tuple[int, ...] | Tensor:
        """Returns the input of the encoder."""
        if not self.listens:
            ids = self.ids(prompt, config)
            return tuple(self.fitting(ids, self.net.encoder, config, new=0))
        if not isinstance(prompt, Tensor):
            raise InputError(
                "This model writes about sound: give it a spectrogram, as model.processor makes it."
            )
        return prompt

    def ids(self, prompt: Prompt | None, config: GenerationConfig) -> list[int]:
        """Returns the token ids of a prompt; without a prompt, the start token."""
        if prompt is None and (config.control or config.examples):
            prompt = ""
        if prompt is None:
            if self.translates:
                raise InputError("This model rewrites a text: give it one as the prompt.")
            return [self.start(config)]
        if isinstance(prompt, str):
            tokenizer, before = self.reads(config)
            text = before + few_shot_prompt(config.examples, prompt)
            ids = tokenizer.encode(text).ids if prompt or config.control or config.examples else []
            warned(self.unknown_ratio(prompt))
        elif config.control or config.examples:
            raise InputError("control and examples are for a text prompt, not for token ids.")
        else:
            ids = as_ids(prompt)
        if not ids:
            raise InputError("The prompt is empty; leave it out for a text from the start token.")
        stack = self.net.decoder if self.listens else self.net.encoder or self.net.decoder
        assert stack is not None
        size = stack.spec.embed.vocabulary
        for id in ids:
            if not 0 <= id < size:
                raise InputError(
                    f"The prompt has the token {id}, and the model's end at {size - 1}."
                )
        return ids

    def unknown_ratio(self, prompt: Prompt | None) -> float:
        """Returns the share of a prompt's text that the vocabulary does not know."""
        if self.tokenizer is None or not isinstance(prompt, str) or not prompt:
            return 0.0
        return self.tokenizer.unknown_ratio(prompt)

    def start(self, config: GenerationConfig) -> int:
        order = (config.decoder_start_token_id, config.bos_token_id, *config.eos_token_id)
        found = next((id for id in order if id is not None), None)
        if found is None:
            raise ConfigError("The model has no start token; give one as bos_token_id.")
        return found

    def beginning(
        self, source: tuple[int, ...] | Tensor | None, config: GenerationConfig
    ) -> list[int]:
        """Returns the initial tokens of the decoder of an encoder-decoder."""
        start = self.start(config)
        if not isinstance(source, Tensor):
            return [start]
        return beginning(self.net, self.tokenizer, self.saved, config, start, source)

    def fitting(self, ids: list[int], stack: Any, config: GenerationConfig, new: int) -> list[int]:
        """Returns the prompt if it fits in the context with one new token, or truncates it.

        Truncation leaves room for `new` tokens, but for at most half of the context.
        """
        context = context_length(stack)
        room = min(new, 1)
        if context is None or len(ids) + room <= context:
            return ids
        if config.truncate is None:
            over = len(ids) + room - context
            raise InputError(
                f"The prompt has {len(ids)} tokens, {over} more than the model's {context} "
                "positions leave room for; shorten it, or choose a side to cut with truncate"
                f"{extension(stack.spec)}."
            )
        kept = max(context - new, context // 2)
        return ids[-kept:] if config.truncate == "left" else ids[:kept]

    def most(self, config: GenerationConfig) -> Callable[[int], int]:
        """Returns a function from the prompt length to the maximum number of new tokens."""
        context = context_length(self.net.decoder)

        def limit(prompt: int) -> int:
            count = config.new_tokens(prompt, context)
            if count < 1:
                raise ConfigError(
                    f"max_length ({config.max_length}) leaves no room behind the prompt's {prompt} "
                    "tokens; raise it, or set max_new_tokens."
                )
            return count

        return limit

    def requests(
        self, prompts: Sequence[Prompt | None], config: GenerationConfig
    ) -> list[GenerationRequest]:
        """Makes requests of several prompts; an error names the index of the prompt."""
        found: list[GenerationRequest] = []
        for number, prompt in enumerate(prompts):
            try:
                found.append(self.request(number, prompt, config))
            except GlassformerError as error:
                raise self.named(number, error, prompts) from None
        return found

    def named(
        self, number: int, error: GlassformerError, prompts: Sequence[Prompt | None]
    ) -> GlassformerError:
        return InputError(f"Prompt {number}: {error}") if len(prompts) > 1 else error
