"""The generation options as a type, for keyword arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from glassformer.generate.config import AllowedTokens, LogitsProcessor


class GenerationOptions(TypedDict, total=False):
    """Keyword arguments of `generate`: the fields of `GenerationConfig`. None is the default."""

    max_new_tokens: int | None
    max_length: int | None
    min_new_tokens: int | None
    min_length: int | None
    max_time: float | None
    stop_strings: str | Sequence[str] | None
    do_sample: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    typical_p: float | None
    seed: int | None
    num_return_sequences: int | None
    num_beams: int | None
    num_beam_groups: int | None
    diversity_penalty: float | None
    length_penalty: float | None
    early_stopping: bool | Literal["never"] | None
    force_words_ids: Sequence[Sequence[int]] | Sequence[Sequence[Sequence[int]]] | None
    tree: bool | None
    penalty_alpha: float | None
    prompt_lookup_num_tokens: int | None
    num_assistant_tokens: int | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    no_repeat_ngram_size: int | None
    bad_words_ids: Sequence[Sequence[int]] | None
    suppress_tokens: Sequence[int] | None
    begin_suppress_tokens: Sequence[int] | None
    forced_bos_token_id: int | None
    forced_eos_token_id: int | Sequence[int] | None
    prefix_allowed_tokens_fn: AllowedTokens | None
    logits_processor: LogitsProcessor | Sequence[LogitsProcessor] | None
    regex: str | None
    bos_token_id: int | None
    eos_token_id: int | Sequence[int] | None
    pad_token_id: int | None
    decoder_start_token_id: int | None
    source_language: str | None
    target_language: str | None
    language: str | None
    task: str | None
    control: str | None
    examples: str | Sequence[str] | None
    return_timestamps: bool | None
    no_timestamps_token_id: int | None
    max_initial_timestamp_index: int | None
    batch_size: int | None
    prefill_chunk: int | None
    prefix_cache_bytes: int | None
    bidirectional_prefix: bool | None
    enforce_eager: bool | None
    compile: bool | None
    truncate: Literal["left", "right"] | None
