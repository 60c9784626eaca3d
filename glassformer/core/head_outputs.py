"""The inputs of a model's heads, and the form of their outputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.core.audio_image_embedding import PatchEmbedding, unpatchify
from glassformer.core.heads import Head, pooling_positions
from glassformer.core.input_rules import mask_question
from glassformer.core.pass_options import PassOptions
from glassformer.core.span_head import SpanHead
from glassformer.core.stack import Stack
from glassformer.errors import InputError
from glassformer.spec import SpecialTokens


@dataclass
class HeadInputs:
    """What heads read.

    Attributes:
        hidden: The last hidden state, [row, position, width].
        states: The embedding and the outputs of all layers, if a head reads them.
        memory: The encoder's output, if there is a decoder that reads it.
        text: The token ids, or the signal.
        mask: True at real tokens.
        question: True at the question, for models that answer after it.
        lead: The shape of the batch, which the choices of an example are part of.
        last: Heads that read every position read only this many last ones; None: all.
        options: The options of the forward pass.
        stack: The stack whose output the heads read.
        special: Ids of special tokens.
    """

    hidden: Tensor
    states: list[Tensor] | None
    memory: Tensor | None
    text: Tensor
    mask: Tensor | None
    question: Tensor | None
    lead: torch.Size
    last: int | None
    options: PassOptions
    stack: Stack
    special: SpecialTokens

    def __post_init__(self) -> None:
        if self.stack.spec.embed.bag is not None:  # a text becomes one vector
            self.text, self.mask = self.text[:, :1], None
        permutation = self.options.get("permutation")
        if permutation is not None and permutation.targets is not None:
            self.text = permutation.targets
            self.mask = torch.ones_like(self.text, dtype=torch.bool)

    def of(self, head: Head) -> tuple[Tensor, Tensor | None]:
        """Returns the hidden states that a head reads, and the positions that it pools."""
        if head.spec.stack == "encoder":
            if self.memory is None:
                raise InputError(
                    f"The head {head.spec.name!r} reads the encoder's output, and a pass with a "
                    "cache does not compute it; give the encoder's input without a cache."
                )
            return self.memory, None
        where = pooling_positions(head.spec, self.hidden, self.text, self.mask, self.special)
        at = self.options.get("head_positions")
        if at is not None and where is not None and where.dtype != torch.bool:
            where = at.flatten()
        read = self.hidden if self.states is None else head.select_layer(self.hidden, self.states)
        if self.last is not None and where is None:
            read = read[:, -self.last :]
        return read, where

    def features(self, head: Head) -> Tensor:
        """Returns the input of a head's output layer, in the shape of the batch."""
        found = head.features(*self.of(head))
        return found.view(*self.lead, *found.shape[1:])

    def outputs(self, head: Head, result: Tensor) -> dict[str, Tensor]:
        """Returns a head's result by name, in the shape of the batch, and what follows from it."""
        name = head.spec.name
        if self.question is not None and head.spec.after_question:
            result = mask_question(result, self.question, self.mask)
        found: dict[str, Tensor] = {}
        if isinstance(head, SpanHead):
            answers = head.search(self.hidden, result, self.mask)
            found = {f"{name}.{key}": value for key, value in answers.items()}
        if head.spec.pixel_shuffle and isinstance(self.stack.embed, PatchEmbedding):
            grid = self.stack.embed.grid(self.text)
            result = unpatchify(result, grid, head.spec.pixel_shuffle)
        shape = self.lead if head.spec.multiple_choice else (*self.lead, *result.shape[1:])
        return {**found, name: result.view(shape)}
