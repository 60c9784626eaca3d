"""Room 3, core: texts of a question, a separator, and what is asked about."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.spec import ModelSpec

OUT_OF_THE_RACE = 1e6  # what the published models take off a score


def in_question(tokens: Tensor, mask: Tensor | None, separator: int | None) -> Tensor:
    """True up to the first separator and with it; at the first token alone where there is none."""
    slots, real = _slots(tokens), _real(tokens, mask)
    ends = tokens.eq(-1 if separator is None else separator) & real
    return slots <= torch.where(ends.any(-1), ends.int().argmax(-1), real.int().argmax(-1))[:, None]


def without_answers(scores: Tensor, question: Tensor, mask: Tensor | None) -> Tensor:
    """Scores of [batch, position, ...], very low in the question but for its first token, which
    stands for no answer at all."""
    first = _slots(question) == _real(question, mask).int().argmax(-1, keepdim=True)
    return scores - OUT_OF_THE_RACE * (question & ~first)[..., None]


def usual_global_tokens(spec: ModelSpec, tokens: Tensor, mask: Tensor | None) -> Tensor | None:
    """The global tokens of [batch, position] where the caller names none."""
    slots, real, separator = _slots(tokens), _real(tokens, mask), spec.tokens.separator
    if spec.global_tokens == "none":
        return None
    if spec.global_tokens == "first":
        return slots == real.int().argmax(-1, keepdim=True)
    ends = tokens.eq(-1 if separator is None else separator) & real
    if not torch.compiler.is_compiling() and not bool(ends.any(-1).all()):
        raise GlassformerError(
            f"This model finds the question in a text by the separator (id {separator}) behind it, "
            "and a text has none; put it there, or name the global tokens as `global_tokens`."
        )
    end = ends.int().argmax(-1, keepdim=True)
    return (slots < end if spec.global_tokens == "question" else slots > end + 1) & real


def _slots(tokens: Tensor) -> Tensor:
    return torch.arange(tokens.shape[1], device=tokens.device)


def _real(tokens: Tensor, mask: Tensor | None) -> Tensor:
    return torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
