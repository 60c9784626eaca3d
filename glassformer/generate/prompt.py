"""What a user may give, and what is one of them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from torch import Tensor

from glassformer.errors import GlassformerError

Prompt = str | Sequence[int] | Tensor  # a text, token ids, or the sound that the encoder reads


def is_list_of_prompts(prompt: Any, axes: int) -> bool:
    """A list of texts, of lists of ids or of sounds, rather than one of them (which has `axes`)."""
    if isinstance(prompt, Tensor):
        return prompt.ndim > axes
    if not isinstance(prompt, Sequence) or isinstance(prompt, str):
        return False
    return bool(prompt) and not isinstance(prompt[0], Integral)


def as_ids(prompt: Any) -> list[int]:
    try:
        whole = prompt.tolist() if isinstance(prompt, Tensor) else list(prompt)
        if any(isinstance(id, bool) or int(id) != id for id in whole):
            raise ValueError
        return [int(id) for id in whole]
    except (TypeError, ValueError, OverflowError):
        raise GlassformerError(
            f"A prompt is a text or a list of token ids, not {prompt!r}."
        ) from None
