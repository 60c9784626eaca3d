"""Singular value decomposition of the circuits of heads and feed-forward layers, from weights only.

The strongest singular directions are interpreted as tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.inside.capture.named_tensor import NamedTensor, check_index
from glassformer.inside.displayable import Displayable
from glassformer.inside.lens.unembed import Words, logit_effects, ranked, read
from glassformer.inside.weights.factors import block_of, factors, fold_norm_after, fold_norm_before
from glassformer.tasks.model_protocol import TaskModel

SIDES = {  # what the sides of each matrix do, [left, right]
    "ov": ("writes", "reads"),
    "qk": ("asks", "is asked"),
    "in": (None, "reads"),
    "gate": (None, "reads"),
    "out": ("writes", None),
}


@dataclass(frozen=True)
class End:
    """The singular directions on one side of a matrix.

    Their signs are arbitrary, but consistent between the two sides.

    Attributes:
        vectors: [rank, width], of length 1.
        words: For each direction, the tokens at its positive and at its negative end.
    """

    vectors: NamedTensor
    words: list[tuple[Words, Words]]


@dataclass(frozen=True)
class Circuit(Displayable):
    """The result of `circuit`.

    Attributes:
        which: The kind of circuit.
        layer: The layer.
        head: The head; None for a feed-forward layer.
        strengths: The singular values, [rank].
        ends: The sides by role: "writes" and "reads" for OV, "asks" (queries) and "is asked" (keys)
            for QK, "reads" or "writes" for a feed-forward layer.
    """

    which: str
    layer: int
    head: int | None
    strengths: NamedTensor
    ends: dict[str, End]

    def __getitem__(self, end: str) -> End:
        if end not in self.ends:
            raise ConfigError(f"{self.heading} has no {end!r}, only {', '.join(self.ends)}.")
        return self.ends[end]

    def __repr__(self) -> str:
        return f"<{self.heading}: {len(self.strengths)} directions>"

    def _repr_html_(self) -> str:
        from glassformer.inside.show.circuits import circuit_html

        return circuit_html(self)

    @property
    def heading(self) -> str:
        where = f"layer {self.layer}" + ("" if self.head is None else f", head {self.head}")
        return f"{self.which.upper() if self.head is not None else self.which} of {where}"


@torch.no_grad()
def circuit(
    model: TaskModel,
    layer: int,
    head: int | None = None,
    which: str = "ov",
    *,
    count: int = 10,
    top: int = 8,
    stack: str = "",
    cross: bool = False,
) -> Circuit:
    """Decomposes a circuit into its strongest directions and interprets them as tokens.

    Args:
        model: The model.
        layer: The layer.
        head: The head, for "ov" and "qk".
        which: A head's "ov" or "qk" circuit, or what the neurons of a feed-forward layer read
            ("in", or "gate" of a gated one) or write ("out").
        count: The number of directions.
        top: The number of tokens for each end.
        stack: "encoder" or "decoder", by default the last stack.
        cross: Whether the head is one of cross-attention.

    Returns:
        The circuit.

    >>> inside.circuit(model, 3, 1, "ov")["writes"].words[0]
    """
    if which not in SIDES:
        raise ConfigError(f"A circuit is one of {', '.join(SIDES)}, not {which!r}.")
    if which in ("ov", "qk"):
        left, right = _of_head(model, layer, head, which, stack, cross)
    elif head is not None:
        raise ConfigError(f"{which!r} belongs to a whole layer; leave out the head.")
    else:
        left, right = _of_neurons(model, layer, which, stack)
    u, strengths, v = product_svd(left, right)
    count = min(count, len(strengths))
    key_stack = "encoder" if cross else stack
    tell: dict[str, Callable[[Tensor], Tensor]] = {
        "writes": lambda x: logit_effects(model, x, stack),
        "reads": lambda x: read(model, x, key_stack),
        "asks": lambda x: read(model, x, stack),
        "is asked": lambda x: read(model, x, key_stack),
    }
    found = {
        name: (x[:, :count].T, tell[name](x[:, :count].T))
        for name, x in zip(SIDES[which], (u, v), strict=True)
        if name is not None
    }
    values = next(iter(found.values()))[1]  # the larger end of the first side is positive
    sign = torch.where(values.amax(1) >= -values.amin(1), 1.0, -1.0)[:, None]
    labels = {"rank": [str(rank) for rank in range(count)]}
    ends = {
        name: End(
            NamedTensor(x * sign, ("rank", "width"), labels, f"{which} {name}"),
            ranked(
                model,
                values_of_side * sign,
                top,
                key_stack if name in ("reads", "is asked") else stack,
            ),
        )
        for name, (x, values_of_side) in found.items()
    }
    return Circuit(
        which, layer, head, NamedTensor(strengths[:count], ("rank",), labels, which), ends
    )


def _of_head(
    model: TaskModel, layer: int, head: int | None, which: str, stack: str, cross: bool
) -> tuple[Tensor, Tensor]:
    if head is None:
        raise ConfigError(f"{which!r} belongs to one head; give the head.")
    own = factors(model, layer, stack, cross)
    check_index(head, len(own.q), "head")
    if which == "ov":
        return own.o[head], own.v[head]
    if block_of(model, layer, stack).attention.spec.score != "dot" and not cross:
        raise UnsupportedError(
            "The scores of this head are not products of queries and keys, so it has no QK circuit."
        )
    return own.q[head].T, own.k[head]


def _of_neurons(model: TaskModel, layer: int, which: str, stack: str) -> tuple[Tensor, Tensor]:
    """The factors of a feed-forward matrix; the side of the neurons is the identity."""
    block = block_of(model, layer, stack)
    if which == "out":
        weight = fold_norm_after(block, "ffn", block.ffn.down.weight)
        return weight, torch.eye(weight.shape[1], device=weight.device)
    parts = torch.split(block.ffn.up.weight, list(block.ffn.up.parts))
    if which == "gate" and len(parts) == 1:
        raise UnsupportedError("This feed-forward layer has no gate; use 'in'.")
    weight = fold_norm_before(block, "ffn", parts[0 if which == "gate" else -1])
    return torch.eye(len(weight), device=weight.device), weight


def product_svd(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns U, S and V of left @ right, [m, r] and [r, n], without forming the full product."""
    q, r = torch.linalg.qr(left)
    p, t = torch.linalg.qr(right.T)
    u, s, v = torch.linalg.svd(r @ t.T, full_matrices=False)
    return q @ u, s, p @ v.T
