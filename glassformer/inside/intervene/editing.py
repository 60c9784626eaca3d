"""Installation of edits around a model's stacks, and their removal.

Edits wrap a stack as adapters with virtual tokens do (`Stack.active_wrapper`), so that they affect
everything that calls the network in their context: tasks, generation with its cache, training.
Other threads run the model without them. Generation does not use its fast paths while edits are
active.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from glassformer.core import ActivationCapture, Cache, Transformer
from glassformer.core.context_wrappers import (
    ContextWrapper,
    added_wrappers,
    without_wrappers,
)
from glassformer.core.hooks import Tap, wants
from glassformer.core.pass_context import PassContext, count_positions
from glassformer.core.stack import Stack, StackWrapper
from glassformer.inside.capture.model_inputs import encode_inputs
from glassformer.inside.capture.names import names_of
from glassformer.inside.intervene.edit import Edit, Edits, Places, Resolved, own_part, touched
from glassformer.tasks.model_protocol import TaskModel

LONGEST = 1 << 12  # maximum number of sentences in a story


class Editing:
    """A stack's wrapper that applies edits, and then what wrapped the stack before."""

    def __init__(self, edits: Edits, inner: StackWrapper | None) -> None:
        self.edits, self.inner = edits, inner

    def num_virtual_tokens(self, stack: Stack) -> int:
        return 0 if self.inner is None else int(self.inner.num_virtual_tokens(stack))

    def prepare(
        self, name: str, stack: Stack, tokens: Tensor, inputs: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any]]:
        """Adds the edits to the hooks of the pass."""
        places = _places(stack, tokens, inputs, self.num_virtual_tokens(stack))
        given = {**inputs, "tap": Editor(self.edits, places, inputs.get("tap"))}
        return (
            (tokens, given)
            if self.inner is None
            else self.inner.prepare(name, stack, tokens, given)
        )

    def finish(self, hidden: Tensor, ctx: PassContext) -> Tensor:
        """Returns the hidden states as the wrapped wrapper does."""
        return hidden if self.inner is None else self.inner.finish(hidden, ctx)


class Editor:
    """A hook that applies edits and then calls the next hook with the result."""

    def __init__(self, edits: Edits, places: Places, then: Tap | None) -> None:
        self.edits, self.places, self.then = edits, places, then

    def wants(self, name: str) -> bool:
        return self.edits.wants(name) or (self.then is not None and wants(self.then, (name,)))

    def __call__(self, name: str, value: Tensor) -> Tensor:
        value = self.edits.apply(name, value, self.places)
        return value if self.then is None else self.then(name, value)


def _places(stack: Stack, tokens: Tensor, given: Mapping[str, Any], taken: int) -> Places:
    if stack.spec.embed.bag is not None:  # a text is one vector, keys are sentences
        one = torch.zeros(1, 1, dtype=torch.long, device=tokens.device)
        return Places(one, torch.arange(LONGEST, device=tokens.device)[None])
    cache: Cache | None = given.get("cache")
    mask: Tensor | None = given.get("mask")
    new = stack.embed.length(tokens)
    begun = cache is not None and cache.length > 0
    if given.get("positions") is not None:
        here: Tensor = given["positions"] - (taken if begun else 0)
    else:
        here = count_positions(mask, new, tokens.device)
        if cache is not None and begun and cache.next_position is not None:
            here = torch.where(here < 0, here, here + cache.next_position - taken)
    if cache is None or not begun:
        return Places(here, here)
    past = count_positions(cache.mask, cache.length, tokens.device) - taken
    rows = max(len(past), len(here))
    return Places(here, torch.cat((past.expand(rows, -1), here.expand(rows, -1)), 1))


def stacks_of(model: Transformer) -> list[Stack]:
    return [stack for stack in (model.encoder, model.decoder) if stack is not None]


def active(model: Transformer) -> list[Edits]:
    """Returns the edits that are active in this context, in the order of application."""
    found: list[Edits] = []
    wrapper: Any = stacks_of(model)[0].active_wrapper
    while isinstance(wrapper, Editing):
        found.insert(0, wrapper.edits)
        wrapper = wrapper.inner
    return found


@contextmanager
def applied_edits(
    model: Transformer, edits: Sequence[Edits], alone: bool = False
) -> Iterator[None]:
    """Applies edits to a network within the `with` block, after the active ones.

    They belong to the current context: passes of other threads are not edited.

    Args:
        model: The network.
        edits: The edits.
        alone: Whether the edits replace the active ones.
    """
    stacks = stacks_of(model)
    added = [ContextWrapper(stack, partial(Editing, one)) for stack in stacks for one in edits]
    with without_wrappers(stacks if alone else ()), added_wrappers(added):
        yield


def resolve(model: TaskModel, given: Iterable[Edit | Mapping[str, Any]]) -> Edits:
    """Resolves edits for a model.

    This runs the source texts of patches through the model without any edits.
    """
    edits = [Edit.of(one) for one in given]
    sources: dict[Any, dict[str, Tensor]] = {}
    wanted: dict[Any, set[str]] = {}
    for edit in edits:
        names = touched(edit, model.spec)
        if edit.kind == "patch":
            wanted.setdefault(_key(edit), set()).update(names)
    for edit in edits:
        if edit.kind == "patch" and _key(edit) not in sources:
            capture = ActivationCapture(*wanted[_key(edit)])
            model_inputs = encode_inputs(model, edit.source, edit.source_target)
            with applied_edits(model, (), alone=True), torch.no_grad():
                model(**model_inputs.inputs, tap=capture)
            known = names_of(model.spec)
            sources[_key(edit)] = {
                name: own_part(name, known[name], x, model_inputs)
                for name, x in capture.tensors.items()
            }
    held = [sources.get(_key(edit), {}) if edit.kind == "patch" else {} for edit in edits]
    return Edits([Resolved.of(edit, model.spec, h) for edit, h in zip(edits, held, strict=True)])


def _key(edit: Edit) -> str:
    return repr((edit.source, edit.source_target))


@contextmanager
def edit(model: TaskModel, given: Iterable[Edit | Mapping[str, Any]]) -> Iterator[TaskModel]:
    """Applies edits to a model within the context."""
    with applied_edits(model, (resolve(model, given),)):
        yield model
