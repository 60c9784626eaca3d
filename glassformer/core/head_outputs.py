"""Computes the outputs of a model's heads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.core.audio_image_embedding import PatchEmbedding, unpatchify
from glassformer.core.heads import Head, pooling_positions
from glassformer.core.input_rules import mask_question
from glassformer.core.pass_options import PassOptions
from glassformer.core.span_head import SpanHead
from glassformer.core.stack import Stack
from glassformer.spec import HeadSpec, SpecialTokens


@dataclass(frozen=True)
class HeadInputs:
    """What heads read.

    Attributes:
        hidden: The last hidden state, [row, position, width].
        states: The embedding and the outputs of all layers, if a head reads them.
        text: The token ids, or the signal.
        mask: True at real tokens.
        question: True at the question, for models that answer after it.
        lead: The shape of the batch, which the choices of an example are part of.
        last: Heads that read every position read only this many last ones; None: all.
    """

    hidden: Tensor
    states: list[Tensor] | None
    text: Tensor
    mask: Tensor | None
    question: Tensor | None
    lead: torch.Size
    last: int | None


def run_heads(
    modules: nn.ModuleDict,
    heads: list[HeadSpec],
    inputs: HeadInputs,
    options: PassOptions,
    stack: Stack,
    special: SpecialTokens,
) -> dict[str, Tensor]:
    """Computes the outputs of heads, by name.

    Args:
        modules: The head modules by name.
        heads: The specs of the heads to compute.
        inputs: What the heads read.
        options: The options of the forward pass.
        stack: The stack whose output the heads read.
        special: Ids of special tokens.
    """
    hidden, text, mask, lead = inputs.hidden, inputs.text, inputs.mask, inputs.lead
    permutation = options.get("permutation")
    if stack.spec.embed.bag is not None:  # a text becomes one vector
        text, mask = text[:, :1], None
    if permutation is not None and permutation.targets is not None:
        text = permutation.targets
        mask = torch.ones_like(text, dtype=torch.bool)
    at = options.get("head_positions")
    results: dict[str, Tensor] = {}
    for head in heads:
        where = pooling_positions(head, hidden, text, mask, special)
        if at is not None and where is not None and where.dtype != torch.bool:
            where = at.flatten()
        module = modules[head.name]
        assert isinstance(module, Head)
        read = hidden if inputs.states is None else module.select_layer(hidden, inputs.states)
        if inputs.last is not None and where is None:
            read = read[:, -inputs.last :]
        if options.get("return_features"):
            found = module.features(read, where)
            results[head.name] = found.view(*lead, *found.shape[1:])
            continue
        result = module(read, where)
        if inputs.question is not None and head.after_question:
            result = mask_question(result, inputs.question, mask)
        if isinstance(module, SpanHead):
            answers = module.search(hidden, result, mask)
            results |= {f"{head.name}.{key}": value for key, value in answers.items()}
        if head.pixel_shuffle and isinstance(stack.embed, PatchEmbedding):
            result = unpatchify(result, stack.embed.grid(text), head.pixel_shuffle)
        shape = lead if head.multiple_choice else (*lead, *result.shape[1:])
        results[head.name] = result.view(shape)
    return results
