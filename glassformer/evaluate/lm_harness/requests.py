"""Tokenization of a context and its continuation."""

from __future__ import annotations

from typing import NamedTuple

from glassformer.errors import InputError, UnsupportedError
from glassformer.text import Tokenizer

Ids = tuple[int, ...]


class LikelihoodRequest(NamedTuple):
    """Request for the probability of `target` after `context`."""

    context: Ids
    target: Ids


def encode_request(tokenizer: Tokenizer, context: str, continuation: str) -> LikelihoodRequest:
    """Encodes a context and its continuation.

    Both are encoded as one text, from which the tokens of the context are removed. Trailing spaces
    of the context belong to the following word, because tokens begin with their space.
    """
    if not context:
        target = tuple(tokenizer.encode(continuation, special=False).ids)
        first = tokenizer.special.get("bos", tokenizer.special.get("eos"))
        if first is None:
            raise UnsupportedError("The tokenizer has no token to begin a text with.")
        return (
            LikelihoodRequest((first,), target)
            if target[:1] != (first,)
            else LikelihoodRequest(target[:1], target[1:])
        )
    text = context.rstrip()
    token_ids = text_ids(tokenizer, context + continuation)
    known = text_ids(tokenizer, text)
    return LikelihoodRequest(known, token_ids[len(known) :])


def text_ids(tokenizer: Tokenizer, text: str) -> Ids:
    """Encodes a text with the tokenizer's special tokens, unless the text contains them itself."""
    first = tokenizer.special.get("bos", tokenizer.special.get("eos"))
    begun = first is not None and text.startswith(tokenizer.token(first))
    return tuple(tokenizer.encode(text, special=not begun).ids)


def truncate_request(request: LikelihoodRequest, limit: int | None) -> LikelihoodRequest:
    """Truncates the beginning of the context so that the model reads at most `limit` tokens.

    The last token of the target is not read, only predicted.
    """
    context, target = request
    if not target:
        raise InputError("A continuation has no tokens beside those of its context.")
    if limit is None:
        return request
    if len(target) > limit:
        raise InputError(
            f"A continuation has {len(target)} tokens, and the model's context {limit}."
        )
    capacity = limit + 1 - len(target)
    return LikelihoodRequest(context[-capacity:], target)
