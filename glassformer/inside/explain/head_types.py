"""Scores that characterize what each attention head attends to on one text."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.inside.capture.named_tensor import NamedTensor
from glassformer.inside.capture.stack_view import StackTensors, StackView
from glassformer.inside.displayable import Displayable

KINDS = ("previous", "first", "self", "same", "induction", "entropy")


class HeadTypes(dict[str, NamedTensor], Displayable):
    """Tensors of [layer, head] by score name."""

    def _repr_html_(self) -> str:
        from glassformer.inside.show.pictures import arrays_html

        return arrays_html(self.heading, self)

    @property
    def heading(self) -> str:
        return "What heads look at: layers down, heads across"


def head_types(side: StackTensors) -> HeadTypes:
    """Scores every head of a stack by what it attends to.

    Args:
        side: A view, one of its stacks, or its cross-attention.

    Returns:
        Tensors of [layer, head]. The mean attention weight on the previous token (`previous`), on
        the first token (`first`), on the token itself (`self`), on earlier equal tokens (`same`),
        and on tokens that follow an earlier equal token (`induction`; Olsson et al., 2022), each
        averaged over the queries that have such a key; and the mean entropy in nats (`entropy`).
        Cross-attention has `first` and `entropy` only.
    """
    side = side.stack_view
    names = ("first", "entropy") if side.scope else KINDS
    masks = _masks(side)
    found: dict[str, list[Tensor]] = {name: [] for name in names}
    for pattern in side.attention:
        weights = pattern.array.float()[..., -len(side.sources) :]  # [head, query, key]
        for name in names:
            if name == "entropy":
                value = torch.special.entr(weights).sum(-1).mean(-1)
            else:
                value = _mean_on(weights, masks[name].to(weights.device))
            found[name].append(value)
    heads = len(next(iter(found.values()))[0])
    labels = {
        "layer": [str(layer) for layer in range(len(side.attention))],
        "head": [str(head) for head in range(heads)],
    }
    return HeadTypes(
        (name, NamedTensor(torch.stack(values), ("layer", "head"), labels, f"heads, {name}"))
        for name, values in found.items()
    )


def _mean_on(weights: Tensor, mask: Tensor) -> Tensor:
    """[head]: the weight on the keys of a mask, averaged over the queries that have one."""
    rows = mask.any(-1)
    return (weights * mask).sum(-1)[:, rows].mean(-1) if bool(rows.any()) else weights[:, 0, 0] * 0


def _masks(side: StackView) -> dict[str, Tensor]:
    """The masks by score name, [query, key] each."""
    queries, keys = len(side.tokens), len(side.sources)
    first = torch.zeros(queries, keys, dtype=torch.bool)
    first[:, 0] = True
    if side.scope:
        return {"first": first}
    ids = torch.tensor([-1 if token.id is None else token.id for token in side.tokens])
    place = torch.arange(queries)
    before = place[:, None] > place
    equal = ids[:, None] == ids
    after_equal = torch.zeros_like(first)
    after_equal[:, 1:] = (equal & before)[:, :-1]
    return {
        "first": first,
        "previous": place[:, None] - 1 == place,
        "self": place[:, None] == place,
        "same": equal & before,
        "induction": after_equal & before,
    }
