"""The position information of a model as tensors for display.

The result has one form for all models: added tables (sinusoidal, learned), biases by distance (T5,
ALiBi), rotation angles (rotary), vectors by distance (Shaw, Transformer-XL, DeBERTa, whose score
terms are shown for a text), and attention masks (causal, windows, BigBird).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from glassformer.core.attention.mask import self_attention_mask
from glassformer.core.audio_image_embedding import PatchEmbedding
from glassformer.core.embedding import PositionTable
from glassformer.core.pass_context import PassContext
from glassformer.core.positions.deberta import DisentangledPosition, bands
from glassformer.core.stack import Stack
from glassformer.errors import ConfigError
from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.capture.stack_view import StackTensors
from glassformer.inside.displayable import Displayable
from glassformer.inside.weights.position_pictures import DRAW, slots_of
from glassformer.spec import BlockSparsePattern, BlockSpec
from glassformer.tasks.model_protocol import TaskModel

LENGTH = 64  # default number of positions


@dataclass(frozen=True, eq=False)
class Picture(Displayable):
    """One kind of position information.

    Attributes:
        stack: "encoder" or "decoder".
        kind: "table", "bias", "rotary", "distances", "terms" or "mask".
        title: A description.
        layers: The layers it applies to.
        facts: The parameters behind it.
        arrays: The tensors by name.
    """

    stack: str
    kind: str
    title: str
    layers: tuple[int, ...]
    facts: dict[str, Any]
    arrays: dict[str, NamedTensor]

    def _repr_html_(self) -> str:
        from glassformer.inside.show.pictures import picture_html

        return picture_html(self)

    @property
    def heading(self) -> str:
        return f"{self.stack}: {self.title}"


class Pictures(list[Picture], Displayable):
    def _repr_html_(self) -> str:
        return "".join(one._repr_html_() for one in self)

    @property
    def heading(self) -> str:
        return "Positions"


@torch.no_grad()
def positions(model: TaskModel, length: int = LENGTH, side: StackTensors | None = None) -> Pictures:
    """Returns the position information of a model.

    Args:
        model: The model.
        length: The number of positions.
        side: A view or one of its stacks, whose text then determines the length, and for which
            DeBERTa's score terms are computed.

    Returns:
        The list of pictures.
    """
    if length < 1:
        raise ConfigError(f"length must be 1 or more, not {length}.")
    named = [("encoder", model.encoder), ("decoder", model.decoder)]
    found = Pictures()
    for name, stack in named:
        if stack is None or (side is not None and side.stack_view.stack != name):
            continue
        size = length if side is None else len(side.tokens)
        found += _tables(name, stack, size)
        found += _modules(name, stack, size, side)
        found += _masks(name, stack, size)
    return found


def _tables(name: str, stack: Stack, length: int) -> Iterator[Picture]:
    layers = tuple(range(len(stack.spec.order)))
    spec = stack.spec.embed.position
    table = getattr(stack.embed, "position", None)
    if isinstance(stack.embed, PatchEmbedding):
        return
    if spec is None or not isinstance(table, PositionTable):
        return
    every = [table, *getattr(stack, "tables", [])]
    for depth, one in enumerate(every):
        rows = one.weight[spec.offset : spec.offset + length].float()
        labels = {"position": [str(i) for i in range(len(rows))]}
        near = F.normalize(rows, dim=-1)
        facts = {"layout": spec.layout, "length": spec.length, "offset": spec.offset}
        yield Picture(
            name,
            "table",
            "learned positions" if spec.layout == "learned" else f"sinusoids ({spec.layout})",
            layers[:1] if len(every) == 1 else (depth,),
            facts,
            {
                "table": NamedTensor(rows, ("position", "width"), labels, "position table"),
                "likeness": NamedTensor(
                    near @ near.T,
                    ("position", "other"),
                    {**labels, "other": labels["position"]},
                    "cosine between positions",
                ),
            },
        )


def _modules(name: str, stack: Stack, length: int, side: StackTensors | None) -> Iterator[Picture]:
    """One picture per position module, with all layers that use it."""
    users: dict[int, list[int]] = {}
    for depth, index in enumerate(stack.spec.order):
        place = stack.position_of[index]
        if place is not None:
            users.setdefault(place, []).append(depth)
    for place, layers in users.items():
        module: Any = stack.positions[place]
        block = stack.blocks[stack.spec.order[layers[0]]]
        kind, title, facts, arrays = DRAW[type(module)](module, block, stack, length)
        yield Picture(name, kind, title, tuple(layers), facts, arrays)
        if side is not None and isinstance(module, DisentangledPosition):
            for layer in layers:
                yield _terms(name, module, stack, side, layer)


def _terms(
    name: str, module: DisentangledPosition, stack: Stack, side: StackTensors, layer: int
) -> Picture:
    """The three parts of a DeBERTa score, [head, query, key] each, for the text of a view."""
    attention: Any = stack.blocks[stack.spec.order[layer]].attention
    q, k = side.q[layer].array[None], side.k[layer].array[None]
    length = q.shape[2]
    farther = torch.arange(1 - length, length, device=q.device)
    table, empty = module.table(), q.new_zeros(*q.shape[:3], length)
    to_position, to_content = empty.clone(), empty.clone()
    if module.spec.content_to_position:
        keys = module.projected(attention, "key", table)[:, module.rows(-farther)]
        for rows, scores in bands(q, keys):
            to_position[:, :, rows] = scores
    if module.spec.position_to_content:
        queries = module.projected(attention, "query", table)[:, module.rows(farther)]
        for columns, scores in bands(k, queries):
            to_content[..., columns] = scores.transpose(-1, -2)
    content = q @ k.transpose(-1, -2) * attention.attend.scale
    words = [token.text for token in side.tokens]
    labels = {"query": words, "key": words}
    terms = {
        "content_to_content": content,
        "content_to_position": to_position,
        "position_to_content": to_content,
    }
    arrays = {
        key: NamedTensor(x[0].float(), ("head", "query", "key"), labels, key.replace("_", " "))
        for key, x in terms.items()
    }
    return Picture(name, "terms", f"the terms of layer {layer}'s scores", (layer,), {}, arrays)


def _masks(name: str, stack: Stack, length: int) -> Iterator[Picture]:
    """The keys that each query can attend to, for every attention pattern of the stack."""
    users: dict[Any, list[int]] = {}
    for depth, index in enumerate(stack.spec.order):
        layer = stack.spec.blocks[index]
        if isinstance(layer, BlockSpec):
            users.setdefault(layer.pattern, []).append(depth)
    slots = slots_of(stack, length)
    for pattern, layers in users.items():
        ctx = PassContext(stack=name, q_slot=slots, k_slot=slots, q_pos=slots[None])
        seen = self_attention_mask(ctx, pattern)
        whole = torch.ones(length, length, dtype=torch.bool, device=slots.device)
        if seen.causal:
            block = slots // (seen.block or length)
            whole = whole.tril() & (block[:, None] == block)
        elif seen.mask is not None:
            whole = seen.mask[0, 0].expand(length, length)
        facts = {field: getattr(pattern, field) for field in pattern.__dataclass_fields__}
        if isinstance(pattern, BlockSparsePattern):
            facts["whole"] = pattern.full_attention_length
            title = f"blocks of {pattern.block_size}"
        else:
            title = _pattern_title(pattern)
        picture = NamedTensor(whole, ("query", "key"), {}, "what is seen")
        yield Picture(name, "mask", title, tuple(layers), facts, {"mask": picture})


def _pattern_title(pattern: Any) -> str:
    if pattern.block is not None:
        return f"blocks of {pattern.block}"
    if pattern.left is not None or (pattern.right or 0) > 0:
        steps = "" if pattern.dilation == 1 else f", every {pattern.dilation}th"
        return f"a window from {pattern.left} before to {pattern.right} after{steps}"
    return "all before, and itself" if pattern.right == 0 else "all"
