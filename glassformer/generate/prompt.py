"""Types of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, TypeGuard

from torch import Tensor

from glassformer.errors import InputError

Prompt = str | Sequence[int] | Tensor  # text, token ids, or spectrogram for the encoder


def is_list_of_prompts(prompt: Any, axes: int) -> bool:
    """Returns whether this is a list of texts, of token id lists, or of spectrograms.

    A single spectrogram has `axes` dimensions.
    """
    if isinstance(prompt, Tensor):
        return prompt.ndim > axes
    if not isinstance(prompt, Sequence) or isinstance(prompt, str):
        return False
    return bool(prompt) and not isinstance(prompt[0], Integral)


def is_rows_of_ids(prompt: Any) -> TypeGuard[Tensor]:
    """Returns whether this is a tensor of token ids of [row, position], as a tokenizer returns."""
    return isinstance(prompt, Tensor) and prompt.ndim == 2 and not prompt.is_floating_point()


def as_ids(prompt: Any) -> list[int]:
    """Converts a prompt of token ids to a list of ints."""
    try:
        whole = prompt.tolist() if isinstance(prompt, Tensor) else list(prompt)
        if any(isinstance(id, bool) or int(id) != id for id in whole):
            raise ValueError
        return [int(id) for id in whole]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"A prompt is a text or a list of token ids, not {prompt!r}.") from None
