"""Context length of a model, for generation, scoring and tasks."""

from __future__ import annotations

from typing import Any

from glassformer.spec import StackSpec


def context_length(stack: Any) -> int | None:
    """Returns how many tokens a text may have in a stack; None if there is no limit.

    That is the number of positions the stack was trained for, minus those taken by the tokens of an
    adapter.
    """
    length: int | None = stack.spec.context_length
    taken = 0 if stack.wrapper is None else int(stack.wrapper.num_virtual_tokens(stack))
    return None if length is None else length - taken


def extension(stack: StackSpec) -> str:
    """Returns a hint on how to extend the context, as the end of an error message.

    Only rotary positions can be extended without training.
    """
    if stack.embed.position is not None:
        return ""
    return " (rope_scaling in config.json extends rotary positions)"
