"""Packs texts of different lengths into one row on a CPU, so that no layer computes padding.

Outputs have the same shape as if each text had a row of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.core import Transformer
from glassformer.core.heads import pooling_positions
from glassformer.native import attention as cpu
from glassformer.spec import CAUSAL, FULL, BlockSpec, ModelSpec, RotarySpec


def can_pack(model: Transformer) -> bool:
    """Whether packed texts are as fast as separate ones.

    This requires layers that only use attention, with a CPU kernel that knows the boundaries of the
    texts.
    """
    stack = model.decoder or model.encoder
    assert stack is not None
    here = cpu.plain(next(model.parameters())) and not model.training
    return (
        here and stack.active_wrapper is None and is_plain(model.spec) and cpu.library() is not None
    )


def is_plain(spec: ModelSpec) -> bool:
    stack = spec.last_stack
    single = spec.encoder is None or spec.decoder is None
    usual = stack.convolution is None and not stack.empty_memory_slots and not stack.scores_segments
    return single and usual and stack.embed.bag is None and all(map(only_attends, stack.blocks))


def only_attends(block: object) -> bool:
    if not isinstance(block, BlockSpec) or block.pattern not in (FULL, CAUSAL):
        return False
    own, position = block.attention, block.position
    wide = own.head_dim % cpu.LANES == 0
    plain = own.score == "dot" and own.softcap is None and own.compression_factor is None
    return (
        wide
        and plain
        and not own.separate_global_projections
        and isinstance(position, RotarySpec | None)
    )


def states_of_texts(model: Transformer, inputs: dict[str, Tensor]) -> Tensor:
    """Returns the last hidden states, [text, position, width], zero at padding.

    `inputs` must have an attention mask.
    """
    mask = inputs["attention_mask"]
    sizes = mask.sum(-1)
    runs = torch.cat((sizes.new_zeros(1), sizes.cumsum(0))).int()
    row = {name: value[mask][None] for name, value in inputs.items() if name != "attention_mask"}
    texts = torch.arange(len(sizes)).repeat_interleave(sizes)[None]
    hidden = model(**row, document_ids=texts, cu_seqlens=runs, heads=()).last_hidden_state
    states: Tensor = hidden.new_zeros(*mask.shape, hidden.shape[-1])
    states[mask] = hidden[0]
    return states


def head_logits(model: Transformer, inputs: dict[str, Tensor], name: str) -> Tensor:
    """Returns the output of a head for texts."""
    (head,) = (head for head in model.spec.heads if head.name == name)
    usual = (
        not head.num_weighted_layers
        and head.depth is None
        and not head.after_question
        and not head.multiple_choice
    )
    found: Tensor
    if "attention_mask" in inputs and usual and can_pack(model):
        states = states_of_texts(model, inputs)
        where = pooling_positions(
            head, states, inputs["input_ids"], inputs["attention_mask"], model.spec.tokens
        )
        found = model.heads[name](states, where)
    else:
        found = model(**inputs, heads=(name,)).head_outputs[name]
    return found
