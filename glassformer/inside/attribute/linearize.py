"""Linearization of norms, activations and heads at the values of one run.

A norm divides by the size of its input: with that number fixed, it is linear. An activation, or a
softcap, multiplies its input by the ratio of output to input: with that ratio fixed, it is linear
too. A logit is then exactly a sum over everything written to the residual stream. A `Back` function
takes a direction from after a module to before it: it returns the coefficients of the module's
input, and the contribution of the module's own bias.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from glassformer.core.adaptive_softmax import AdaptiveSoftmax
from glassformer.core.heads import Head
from glassformer.core.norm import BatchNorm, LayerNorm, RMSNorm
from glassformer.errors import UnsupportedError

Back = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Maps a direction [row, width out] to [row, width in] and the contribution of the bias."""


def exact(x: Tensor) -> Tensor:
    """Returns the detached tensor in double precision."""
    return x.detach().double()


def norm_of(module: nn.Module, x: Tensor) -> tuple[Tensor, Back]:
    """Returns a norm's output for x, [row, width], and its backward function."""
    if isinstance(module, nn.Identity):
        return x, lambda u: (u, u.new_zeros(()))
    if isinstance(module, BatchNorm):
        norm = module.norm
        assert norm.running_mean is not None and norm.running_var is not None
        scale = exact(norm.weight) * torch.rsqrt(exact(norm.running_var) + norm.eps)
        shift = exact(norm.bias) - exact(norm.running_mean) * scale
        return x * scale + shift, lambda u: (u * scale, (u * shift).sum())
    assert isinstance(module, LayerNorm | RMSNorm)
    centered = isinstance(module, LayerNorm)
    weight = exact(module.weight)
    if isinstance(module, RMSNorm) and module.unit_offset:
        weight = weight + 1.0
    inner = x - x.mean(-1, keepdim=True) if centered else x
    size = torch.rsqrt(inner.square().mean(-1, keepdim=True) + module.eps)
    bias = getattr(module, "bias", None)
    shift = torch.zeros_like(weight) if bias is None else exact(bias)

    def back(u: Tensor) -> tuple[Tensor, Tensor]:
        before = u * weight * size
        if centered:
            before = before - before.mean(-1, keepdim=True)
        return before, (u * shift).sum()

    return inner * size * weight + shift, back


def linear_of(module: nn.Module, x: Tensor) -> tuple[Tensor, Back]:
    weight, bias = _matrix(module)
    return x @ weight.T + bias, lambda u: linear_back(module, u)


def linear_back(module: nn.Module, u: Tensor) -> tuple[Tensor, Tensor]:
    weight, bias = _matrix(module)
    return u @ weight, (u * bias).sum()


def _matrix(module: nn.Module) -> tuple[Tensor, Tensor]:
    """The weight, dequantized if necessary, and the bias, zeros if there is none."""
    weight: Tensor = module.weight  # type: ignore[assignment]
    bias: Tensor | None = getattr(module, "full_bias", getattr(module, "bias", None))
    return exact(weight), exact(weight.new_zeros(len(weight)) if bias is None else bias)


def activation_of(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Back]:
    """Linearizes an activation by its ratio of output to input.

    Where the input is zero, the output is a constant.
    """
    out = function(x)
    nothing = x.abs() < 1e-9
    ratio = torch.where(nothing, 0.0, out / torch.where(nothing, 1.0, x))
    constant = torch.where(nothing, out, 0.0)
    return out, lambda u: (u * ratio, (u * constant).sum())


def sum_of(x: Tensor, y: Tensor, back: Back) -> tuple[Tensor, Back]:
    """Returns x + y, where y is a module's output for x, and the backward function of the sum.

    Args:
        x: The input.
        y: The module's output.
        back: The backward function of the module.
    """

    def both(u: Tensor) -> tuple[Tensor, Tensor]:
        before, constant = back(u)
        return u + before, constant

    return x + y, both


def head_direction(head: Head, x: Tensor, output: int) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns the direction of a head's output with respect to its input.

    Args:
        head: The head.
        x: The head's input, [row, width] with one row.
        output: The index of the output.

    Returns:
        The coefficients of `x`, and what the head itself adds, by name.
    """
    spec = head.spec
    steps: list[tuple[str, Back]] = []
    if spec.norm is not None:
        x, back = norm_of(head.norm, x)
        steps.append(("norm bias", back))
    x = x * spec.scale
    steps.append(("", lambda u: (u * spec.scale, u.new_zeros(()))))
    if spec.transform is not None:
        made = head.transform
        y, dense = linear_of(made.dense, x)
        y, gate = activation_of(made.activation, y)
        inner = [("transform bias", dense), ("transform bias", gate)]
        if made.back is not None:
            y, leads = linear_of(made.back, y)
            inner.append(("transform bias", leads))
            y, whole = sum_of(x, y, _joined([step for _, step in inner]))
            inner = [("transform bias", whole)]
        if made.norm is not None:
            y, back = norm_of(made.norm, y)
            inner.append(("norm bias", back))
        steps, x = [*steps, *inner], y
    u, added, raw = _output(head, x, output)
    value = raw
    if spec.softcap is not None:
        value = torch.tanh(value / spec.softcap) * spec.softcap
    value = head.activation(value)
    ratio = value / raw if raw.abs() > 1e-9 else raw.new_zeros(())
    u, added = u * ratio, {name: each * ratio for name, each in added.items()}
    for name, back in reversed(steps):
        u, constant = back(u)
        if name:
            added[name] = added.get(name, constant.new_zeros(())) + constant
    return u, added


def _joined(steps: list[Back]) -> Back:
    def back(u: Tensor) -> tuple[Tensor, Tensor]:
        total = u.new_zeros(())
        for step in reversed(steps):
            u, constant = step(u)
            total = total + constant
        return u, total

    return back


def _output(head: Head, x: Tensor, output: int) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """The output layer's row for an output, its bias, and the resulting logit."""
    if head.spec.num_outputs is None:
        raise UnsupportedError(
            f"The head {head.spec.name!r} returns a vector, which has no logits."
        )
    if isinstance(head.out, AdaptiveSoftmax):
        return _clustered(head.out, x, output)
    row = exact(head.out.weight[output])
    bias = getattr(head.out, "bias", None)
    added = {} if bias is None else {"head bias": exact(bias[output])}
    return row.expand_as(x), added, (x * row).sum() + sum(added.values(), x.new_zeros(()))


def _clustered(
    out: AdaptiveSoftmax, x: Tensor, word: int
) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """The log-probability of a word in an adaptive softmax.

    It is the sum of the rows of the word and its cluster, minus the normalizer.
    """
    number, (start, _) = next(
        (i, ends) for i, ends in enumerate(out.clusters) if ends[0] <= word < ends[1]
    )

    def brought(row: Tensor, i: int) -> Tensor:
        return exact(row) if not len(out.projects) else exact(out.projects[i].weight) @ exact(row)  # type: ignore[arg-type]

    table, place = (out.tables[0], word) if out.one_table else (out.tables[number], word - start)
    row = brought(table.get_parameter("weight")[place], number)
    bias = exact(table.get_parameter("bias")[place])
    if number:
        rarer = out.rarer
        row = row + brought(rarer.weight[number - 1], 0)
        bias = bias + exact(rarer.bias[number - 1])
    weight = next(out.parameters())
    whole = exact(out(x.to(weight.dtype))[..., word]).sum()
    added = {"head bias": bias, "normalizer": whole - (x * row).sum() - bias}
    return row.expand_as(x), added, whole
