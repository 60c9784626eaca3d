"""Logits processors: each changes the scores of the next token.

A processor maps (history, scores of [row, token]) to scores. It may mask tokens in place; for any
other change it returns new scores. The processors are applied in the order of transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.generate.config import AllowedTokens, GenerationConfig, LogitsProcessor
from glassformer.generate.history import NOTHING, SequenceState
from glassformer.generate.timestamp_rules import TimestampRules

Processor = Callable[[SequenceState, Tensor], Tensor]
NEVER = float("-inf")


def make_processors(config: GenerationConfig) -> list[Processor]:
    """Returns the processors that the configuration requires, in the order of application."""
    found: list[Processor] = []
    if config.repetition_penalty != 1.0:
        found.append(penalize_repetition(config.repetition_penalty))
    if config.presence_penalty or config.frequency_penalty:
        found.append(penalize_use(config.presence_penalty, config.frequency_penalty))
    if config.no_repeat_ngram_size:
        found.append(forbid_repeated_ngrams(config.no_repeat_ngram_size))
    ends = {(token,) for token in config.eos_token_id}  # eos tokens are never bad words
    if words := [word for word in config.bad_words_ids if word not in ends]:
        found.append(forbid_sequences(words))
    if config.min_length and config.eos_token_id:
        found.append(forbid_until(config.min_length, config.eos_token_id, of_prompt=True))
    if config.min_new_tokens and config.eos_token_id:
        found.append(forbid_until(config.min_new_tokens, config.eos_token_id, of_prompt=False))
    if config.prefix_allowed_tokens_fn is not None:
        found.append(allow_only(config.prefix_allowed_tokens_fn))
    if config.forced_bos_token_id is not None:
        found.append(force_first(config.forced_bos_token_id))
    if config.forced_eos_token_id:
        found.append(force_last(config.forced_eos_token_id))
    if config.suppress_tokens:
        found.append(forbid_tokens(config.suppress_tokens))
    if config.begin_suppress_tokens:
        after_forced = config.forced_bos_token_id is not None
        found.append(forbid_at_first(config.begin_suppress_tokens, after_forced))
    if config.return_timestamps:
        assert config.no_timestamps_token_id is not None and config.eos_token_id
        most = config.max_initial_timestamp_index
        found.append(TimestampRules(config.no_timestamps_token_id, config.eos_token_id[0], most))
    return found + [apply_function(function) for function in config.logits_processor]


def reads_text(config: GenerationConfig) -> bool:
    """Returns whether a processor depends on the tokens of the text, not only on its length."""
    return bool(
        config.repetition_penalty != 1.0
        or config.presence_penalty
        or config.frequency_penalty
        or config.no_repeat_ngram_size
        or config.return_timestamps
        or any(len(word) > 1 for word in config.bad_words_ids)
        or asks_host(config)
    )


def asks_host(config: GenerationConfig) -> bool:
    """Returns whether a processor runs Python code that is not tensor operations."""
    functions = config.prefix_allowed_tokens_fn, config.regex, *config.logits_processor
    return any(function is not None for function in functions)


def penalize_repetition(penalty: float) -> Processor:
    """Divides the scores of tokens in the text by `penalty`; multiplies negative scores by it."""

    def process(history: SequenceState, scores: Tensor) -> Tensor:
        said = _said(history.tokens, scores)
        weaker = torch.where(scores < 0, scores * penalty, scores / penalty)
        return torch.where(said, weaker, scores)

    return process


def penalize_use(presence: float, frequency: float) -> Processor:
    """Penalizes tokens of the new text, with OpenAI's meaning.

    Each token loses `presence` once, and `frequency` for each of its occurrences.
    """

    def process(history: SequenceState, scores: Tensor) -> Tensor:
        new = torch.where(history.is_new, history.tokens, NOTHING)
        counts = _counts(new, scores)
        return scores - presence * (counts > 0) - frequency * counts

    return process


def forbid_repeated_ngrams(size: int) -> Processor:
    """Forbids n-grams of `size` tokens that already occur in the text."""

    def process(history: SequenceState, scores: Tensor) -> Tensor:
        tokens = history.tokens
        if tokens.shape[1] < size:
            return scores
        grams = tokens.unfold(1, size, 1)  # [row, place, size]
        before = tokens[:, tokens.shape[1] - size + 1 :]
        again = (grams[..., :-1] == before[:, None]).all(-1) & (grams != NOTHING).all(-1)
        return scores.masked_fill(_said(torch.where(again, grams[..., -1], NOTHING), scores), NEVER)

    return process


def forbid_sequences(sequences: Sequence[Sequence[int]]) -> Processor:
    """Forbids the last token of a sequence where the text ends with the tokens before it."""

    def process(history: SequenceState, scores: Tensor) -> Tensor:
        _check_tokens("bad_words_ids", [i for word in sequences for i in word], scores)
        slots = history.tokens.shape[1]
        for *before, last in sequences:
            if not before:
                scores[:, last].fill_(NEVER)
            elif len(before) <= slots:
                newest = history.tokens[:, slots - len(before) :].unbind(1)
                same = [slot == token for slot, token in zip(newest, before, strict=True)]
                scores[:, last].masked_fill_(torch.stack(same).all(0), NEVER)
        return scores

    return process


def forbid_until(length: int, tokens: Sequence[int], *, of_prompt: bool) -> Processor:
    """Forbids tokens until the text has this length, with or without the prompt (`of_prompt`)."""

    def process(history: SequenceState, scores: Tensor) -> Tensor:
        have = history.made + history.prompt if of_prompt else history.made
        return _without(tokens, scores, have < length)

    return process


def allow_only(allowed: AllowedTokens) -> Processor:
    """Allows only the tokens that `allowed(row, tokens)` returns."""

    def process(history: SequenceState, scores: Tensor) -> Tensor:
        mask = torch.full_like(scores, NEVER)
        for row in range(len(history)):
            ids = list(allowed(row, history.whole(row)))
            _check_tokens("prefix_allowed_tokens_fn", ids, scores)
            mask[row, ids] = 0.0
        return scores + mask

    return process


def apply_function(function: LogitsProcessor) -> Processor:
    """Applies a user's function to the rows of each length together, so that it sees no padding."""

    def process(history: SequenceState, scores: Tensor) -> Tensor:
        out, lengths = torch.empty_like(scores), history.prompt + history.made
        for length in sorted(set(lengths.tolist())):
            rows = (lengths == length).nonzero()[:, 0]
            tokens = history.tokens[rows, history.tokens.shape[1] - length :]
            out[rows] = _checked(function(tokens, scores[rows]), scores[rows])
        return out

    return process


def _checked(found: object, scores: Tensor) -> Tensor:
    """Returns the scores that a user's function returned, if they can be used."""
    if not isinstance(found, Tensor) or found.shape != scores.shape:
        what = f"a tensor of {list(found.shape)}" if isinstance(found, Tensor) else repr(found)
        raise ConfigError(
            f"A logits_processor must return scores of [row, token], here {list(scores.shape)}, "
            f"not {what}."
        )
    if found.isnan().any():
        raise ConfigError("A logits_processor returned scores that are not a number (NaN).")
    return found.to(scores)


def force_first(token: int) -> Processor:
    """Forces the token that follows the start token (the language of a translation)."""

    def process(history: SequenceState, scores: Tensor) -> Tensor:
        first = (history.prompt + history.made == 1)[:, None]
        return torch.where(first, _only([token], scores), scores)

    return process


def force_last(tokens: Sequence[int]) -> Processor:
    """Forces these tokens where only one more token may follow."""

    def process(history: SequenceState, scores: Tensor) -> Tensor:
        last = (history.limit - history.made == 1)[:, None]
        return torch.where(last, _only(tokens, scores), scores)

    return process


def forbid_tokens(tokens: Sequence[int]) -> Processor:
    """Forbids tokens at every position."""
    return lambda history, scores: _without(tokens, scores)


def forbid_at_first(tokens: Sequence[int], after_forced: bool) -> Processor:
    """Forbids tokens at the first new position, or after the forced first token."""

    def process(history: SequenceState, scores: Tensor) -> Tensor:
        begin = (history.prompt == 1).long() if after_forced else 0
        return _without(tokens, scores, history.made == begin)

    return process


def _without(tokens: Sequence[int], scores: Tensor, rows: Tensor | None = None) -> Tensor:
    """Masks tokens in all rows or in `rows` ([row]); writes only to their columns."""
    _check_tokens("a token to forbid", tokens, scores)
    for token in tokens:
        column = scores[:, token]
        column.fill_(NEVER) if rows is None else column.masked_fill_(rows, NEVER)
    return scores


def _only(tokens: Sequence[int], scores: Tensor) -> Tensor:
    _check_tokens("a forced token", tokens, scores)
    forced = torch.full_like(scores, NEVER)
    for token in tokens:
        forced[:, token].fill_(0.0)
    return forced


def _check_tokens(what: str, tokens: Sequence[int], scores: Tensor) -> None:
    size = scores.shape[1]
    for token in tokens:
        if not 0 <= token < size:
            raise ConfigError(
                f"{what} names the token {token}, and the model's {size} end at {size - 1}."
            )


def _said(tokens: Tensor, scores: Tensor) -> Tensor:
    """Returns which tokens occur in each row, [row, token]."""
    return _counts(tokens, scores) > 0


def _counts(tokens: Tensor, scores: Tensor) -> Tensor:
    size = scores.shape[1]
    places = torch.where((tokens == NOTHING) | (tokens >= size), size, tokens)
    counts = scores.new_zeros(len(scores), size + 1)
    return counts.scatter_add(1, places, torch.ones_like(places, dtype=scores.dtype))[:, :size]
