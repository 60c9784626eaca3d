"""How many tokens a model reads at once: generation, scoring and tasks ask here."""

from __future__ import annotations

from typing import Any

from glassformer.spec import StackSpec


def context_length(stack: Any) -> int | None:
    """How many tokens a text may have in a stack of a net: the positions that it was trained for,
    without those that an adapter's tokens take. None: there is no limit."""
    length: int | None = stack.spec.context_length
    taken = 0 if stack.around is None else int(stack.around.takes(stack))
    return None if length is None else length - taken


def extension(stack: StackSpec) -> str:
    """How a user extends the context of a model, as the end of a sentence. Only rotary positions
    can be extended without training."""
    if stack.embed.position is not None:
        return ""
    return " (rope_scaling in config.json extends rotary positions)"
