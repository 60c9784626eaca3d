"""Requests as tokens. A context and a continuation come in."""

from __future__ import annotations

from typing import NamedTuple

from glassformer.errors import GlassformerError
from glassformer.text import Tokenizer

Ids = tuple[int, ...]


class LikelihoodRequest(NamedTuple):
    """How probable is `target` behind `context`?"""

    context: Ids
    target: Ids


def encode_request(tokenizer: Tokenizer, context: str, continuation: str) -> LikelihoodRequest:
    """Both are read as one text, and the context's own tokens are taken off its beginning. Spaces
    that end a context belong to the word behind them: tokens begin with their space."""
    if not context:
        target = tuple(tokenizer.encode(continuation, special=False).ids)
        first = tokenizer.special.get("bos", tokenizer.special.get("eos"))
        if first is None:
            raise GlassformerError("The tokenizer has no token to begin a text with.")
        return (
            LikelihoodRequest((first,), target)
            if target[:1] != (first,)
            else LikelihoodRequest(target[:1], target[1:])
        )
    text = context.rstrip()
    whole = text_ids(tokenizer, context + continuation)
    known = text_ids(tokenizer, text)
    return LikelihoodRequest(known, whole[len(known) :])


def text_ids(tokenizer: Tokenizer, text: str) -> Ids:
    """With what the tokenizer puts around a text, unless the text says it itself."""
    first = tokenizer.special.get("bos", tokenizer.special.get("eos"))
    begun = first is not None and text.startswith(tokenizer.token(first))
    return tuple(tokenizer.encode(text, special=not begun).ids)


def fitted(request: LikelihoodRequest, limit: int | None) -> LikelihoodRequest:
    """What the net reads is at most so many tokens, without the last of all, which is only asked
    for: the context loses its beginning."""
    context, target = request
    if not target:
        raise GlassformerError("A continuation has no tokens beside those of its context.")
    if limit is None:
        return request
    if len(target) > limit:
        raise GlassformerError(
            f"A continuation has {len(target)} tokens, and the model's context {limit}."
        )
    room = limit + 1 - len(target)
    return LikelihoodRequest(context[-room:], target)
