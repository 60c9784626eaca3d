"""Checks of the arguments of a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

from glassformer.errors import ConfigError, InputError
from glassformer.text.backend import Text


def check_choice(name: str, value: str) -> None:
    if value not in ("left", "right"):
        raise ConfigError(f'{name} must be "left" or "right", not {value!r}.')


def as_list(ids: Any) -> list[int]:
    """Returns the ids of one text as a list, or raises an error.

    Args:
        ids: An id, or a list, an array or a tensor of them.
    """
    if hasattr(ids, "tolist"):  # of an array or a tensor
        if ids.ndim > 1:
            raise InputError(
                f"The ids are {list(ids.shape)}; decode() takes one text, batch_decode() several."
            )
        ids = ids.tolist()
    try:
        return [index(id) for id in (ids if isinstance(ids, Iterable) else [ids])]
    except TypeError:
        raise InputError(f"Token ids are whole numbers, and {str(ids)[:40]!r} is none.") from None


def check_text(text: Text) -> None:
    parts = text if isinstance(text, tuple) and len(text) == 2 else (text,)
    for part in parts:
        if not isinstance(part, str):
            raise InputError(
                f"A text must be a str, or a tuple of two for a pair, not {type(part).__name__}."
            )
        try:
            part.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"The text has half a character (a lone surrogate) at index {error.start}."
            ) from None


def check_lengths(padding: object, truncation: object, max_length: int | None) -> None:
    """Raises an error for a setting of a call that would have no effect."""
    if padding not in (True, False, "longest", "max_length"):
        raise ConfigError(
            f'padding must be True, False, "longest" or "max_length", not {padding!r}.'
        )
    if truncation not in (True, False):
        raise ConfigError(f"truncation must be True or False, not {truncation!r}.")
    if max_length is not None and not truncation and padding != "max_length":
        raise ConfigError(
            'max_length has an effect with truncation=True or padding="max_length"; pass one.'
        )


def check_tensors(name: str) -> None:
    """Raises an error unless the kind of tensors exists here."""
    if name != "pt":
        raise ConfigError(f'return_tensors must be "pt" (PyTorch) or None, not {name!r}.')
