"""The tokens that a direction of the residual stream corresponds to.

A direction that is written to the residual stream is interpreted by the head: how much it raises
each token's logit. A direction that is read from it is interpreted by the embedding: which tokens'
embeddings align with it. Of the modules in between (norms, a head's transform), only the linear
part is used, because there is no text at whose values the rest could be fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.core.adaptive_softmax import AdaptiveSoftmax
from glassformer.core.embedding import Embedding
from glassformer.core.heads import Head
from glassformer.errors import UnsupportedError
from glassformer.inside.capture.model_inputs import token_text
from glassformer.inside.weights.factors import stack_of, straight
from glassformer.tasks.heads import kind_of
from glassformer.tasks.model_protocol import TaskModel

ROWS = 8192  # rows of the embedding per chunk


@dataclass(frozen=True)
class TokenScore:
    """A token and its value along a direction."""

    id: int
    text: str
    value: float


Words = tuple[TokenScore, ...]


def ranked(
    model: TaskModel, values: Tensor, top: int, stack: str = ""
) -> list[tuple[Words, Words]]:
    """Returns the tokens with the largest and the smallest values of each row.

    Args:
        model: The model.
        values: [direction, token]
        top: The number of tokens for each end.
        stack: "encoder" or "decoder", by default the last stack.

    Returns:
        For each direction, the largest tokens in descending and the smallest in ascending order.
    """
    known = model.tokenizer
    if known is not None and (stack or "decoder") == "decoder":
        known = known.target_tokenizer
    count = min(top, values.shape[1])

    def words(row: Tensor, largest: bool) -> Words:
        found, ids = row.topk(count, largest=largest)
        pairs = zip(ids.tolist(), found.tolist(), strict=True)
        return tuple(TokenScore(id, token_text(known, id), value) for id, value in pairs)

    return [(words(row, True), words(row, False)) for row in values]


@torch.no_grad()
def logit_effects(model: TaskModel, directions: Tensor, stack: str = "") -> Tensor:
    """Returns how much directions written to the residual stream raise each logit.

    The embedding is used instead if no head applies (an encoder read by a decoder, an adaptive
    softmax, a model without a language head).

    Args:
        model: The model.
        directions: [direction, width]
        stack: "encoder" or "decoder", by default the last stack.

    Returns:
        [direction, token]
    """
    spec = next((h for h in model.spec.heads if kind_of(h, model.spec) == "lm"), None)
    module, last = stack_of(model, stack), stack_of(model)
    head = None if spec is None else model.heads[spec.name]
    if module is not last or not isinstance(head, Head) or isinstance(head.out, AdaptiveSoftmax):
        return read(model, directions, stack)
    x = directions.float()
    if module.spec.final_norm is not None:
        x = straight(module.final_norm, x)
    if module.spec.projection_width is not None:
        x = x @ module.project.weight.float().T
    if head.spec.norm is not None:
        x = straight(head.norm, x)
    x = x * head.spec.scale
    if head.spec.transform is not None:
        made = head.transform
        y = x @ made.dense.weight.float().T
        if made.back is not None:
            y = x + y @ made.back.weight.float().T
        x = y if made.norm is None else straight(made.norm, y)
    return x @ head.out.weight.float().T


@torch.no_grad()
def read(model: TaskModel, directions: Tensor, stack: str = "") -> Tensor:
    """Returns how far tokens' embeddings align with directions read from the residual stream.

    Args:
        model: The model.
        directions: [direction, width]
        stack: "encoder" or "decoder", by default the last stack.

    Returns:
        [direction, token]
    """
    embed = getattr(stack_of(model, stack), "embed", None)
    if not isinstance(embed, Embedding):
        raise UnsupportedError("This stack reads audio or images, so it has no vocabulary.")
    spec, x = embed.spec, directions.float()
    if spec.embedding_size is not None and spec.project == "sum":
        x = x @ embed.project.weight.float()
    if spec.norm is not None:
        x = straight(embed.norm, x, back=True)
    if spec.embedding_size is not None and spec.project == "token":
        x = x @ embed.project.weight.float()
    parts = []
    for start in range(0, spec.vocabulary, ROWS):
        ids = torch.arange(start, min(start + ROWS, spec.vocabulary), device=x.device)
        parts.append(x @ embed.token(ids[None])[0].float().T * spec.scale)
    return torch.cat(parts, 1)
