"""Cross-entropy over a vocabulary without storing all logits.

Logits are computed for a few rows at a time, turned into losses and into their own gradient, and
freed. It is written here, because torch's loss needs all logits at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer.core.adaptive_softmax import AdaptiveSoftmax
from glassformer.core.heads import Head, Projection
from glassformer.core.linear import Linear
from glassformer.errors import UnsupportedError
from glassformer.rounding import ceil_div, round_up
from glassformer.train.losses import adaptive_loss

IGNORE = -100  # a target that is left out of the loss
EVEN = 64  # logits should have a multiple of so many columns, or matrix products are slow
TILE = 128  # matrix products are fastest with a multiple of so many rows
BYTES = {"gpu": 2**29, "cpu": 2**26}  # size of the logits at a time


def token_loss(
    model: nn.Module,
    inputs: Mapping[str, Any],
    targets: Tensor,
    smoothing: float = 0.0,
    head: str = "lm",
    *,
    at: Tensor | None = None,
) -> Tensor:
    """Returns the sum of the cross-entropies of the targets under a head of the network.

    The network is called as a module; only the head's output layer is read outside of its forward
    pass. That is safe where both happen within the forward pass of one module around the network,
    such as `TrainingModule`: DDP waits for every gradient of that module, and FSDP2 gathers what
    belongs to no group of its own (such as the head) before that forward pass and frees it after
    the backward pass.

    Args:
        model: The network.
        inputs: Its inputs.
        targets: Target ids, [batch, position].
        smoothing: Label smoothing.
        head: Name of the head.
        at: Indices into the flattened batch at which logits are needed, one per target. Masked
            language models so avoid computing the vocabulary at all other positions.
    """
    hidden = features(model, inputs, head).flatten(0, -2)
    if at is not None:
        hidden = hidden[at.flatten()]
    return head_loss(head_of(model, head), hidden, targets.flatten(), smoothing)


def features(model: nn.Module, inputs: Mapping[str, Any], head: str) -> Tensor:
    """Returns the input of the head's output layer, [batch, position, width]."""
    found: Tensor = model(**inputs, heads=(head,), return_features=True).head_outputs[head]
    return found


def head_output(model: nn.Module, inputs: Mapping[str, Any], head: str) -> Tensor:
    """Returns the output of a head."""
    found: Tensor = model(**inputs, heads=(head,)).head_outputs[head]
    return found


def head_of(model: nn.Module, name: str) -> Head:
    """Returns a head of the network by name."""
    heads = model.get_submodule("heads")
    assert isinstance(heads, nn.ModuleDict)
    if name not in heads:
        raise UnsupportedError(
            f"The model has no head {name!r} (it has: {', '.join(heads) or 'none'}); choose an "
            "architecture that has it, or another objective."
        )
    found = heads[name]
    assert isinstance(found, Head)
    return found


def head_loss(head: Head, hidden: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Returns the loss of the head from the inputs of its output layer, [row, width].

    Args:
        head: The head.
        hidden: Inputs of its output layer, [row, width].
        targets: Target ids, [row].
        smoothing: Label smoothing.

    Returns:
        The sum over the rows.
    """
    layer, spec = head.out, head.spec
    plain = _matrix(layer)
    if plain is not None and spec.activation == "linear":
        return cross_entropy(hidden, plain.weight, plain.bias, targets, smoothing, spec.softcap)

    def row_loss(rows: Tensor, targets: Tensor) -> Tensor:
        if isinstance(layer, AdaptiveSoftmax) and not smoothing:
            return adaptive_loss(layer, rows, targets, IGNORE)
        return F.cross_entropy(
            output(head, rows), targets, reduction="sum", label_smoothing=smoothing
        )

    return by_rows(row_loss, spec.num_outputs or 1, hidden, targets)


def _matrix(layer: nn.Module) -> Linear | None:
    """Returns the output layer if it is one local matrix, without an adapter and not sharded.

    An adaptive softmax counts as one matrix if it has only one cluster.
    """
    inner = layer
    if isinstance(layer, AdaptiveSoftmax) and len(layer.clusters) == 1 and not layer.projects:
        inner = layer.tables[0]
    hooked = any(one._forward_hooks or one._forward_pre_hooks for one in (layer, inner))
    if hooked or type(inner) not in (Projection, Linear):
        return None
    assert isinstance(inner, Linear)
    return inner if type(inner.weight) in (Tensor, nn.Parameter) else None


def output(head: Head, rows: Tensor) -> Tensor:
    """Applies the head's output layer, in float32 or finer: [row, width] to [row, word]."""
    return head.activation(_capped(exact(head.out(rows)), head.spec.softcap))


def _capped(logits: Tensor, softcap: float | None) -> Tensor:
    return torch.tanh(logits / softcap) * softcap if softcap else logits


def exact(x: Tensor) -> Tensor:
    """Converts to float32 or finer, because sums of exponentials need the precision."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def by_rows(loss: Any, words: int, *rows: Tensor) -> Tensor:
    """Returns the sum of `loss(*rows)` over chunks of rows; each is recomputed for the gradient.

    This is for output layers that are more than one matrix.
    """
    step = rows_at_once(len(rows[0]), words, torch.float32, rows[0].device)
    parts = zip(*(torch.split(tensor, step) for tensor in rows), strict=True)
    options: dict[str, Any] = {"use_reentrant": False, "preserve_rng_state": False}
    return torch.stack([checkpoint(loss, *part, **options) for part in parts]).sum()


def rows_at_once(rows: int, words: int, dtype: torch.dtype, device: torch.device) -> int:
    """Returns the number of rows per chunk: equal chunks within the budget, in whole tiles."""
    budget = BYTES["cpu" if device.type == "cpu" else "gpu"]
    most = max(1, budget // (words * dtype.itemsize))
    each = ceil_div(rows, max(1, ceil_div(rows, most)))
    return max(1, each if each < TILE else round_up(each, TILE))


def cross_entropy(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float = 0.0,
    softcap: float | None = None,
) -> Tensor:
    """Returns the sum over rows of `F.cross_entropy(x @ weight.T + bias, targets)`.

    Products are computed in the dtype of x, or of autocast; the softmax in float32 or finer. The
    gradients are computed in the forward pass, while the logits are available, and the backward
    pass only scales them. For a compiler all of it is one operation. On a CPU, few logits are
    simply stored, which is faster.

    Args:
        x: Inputs, [row, width].
        weight: Matrix, [word, width].
        bias: Bias, [word].
        targets: Target ids, [row]; rows with -100 are left out.
        smoothing: Label smoothing, as in `F.cross_entropy`.
        softcap: Limit of the logits, applied by tanh.
    """
    kind = x.device.type
    if kind == "cpu" and len(x) <= rows_at_once(len(x), len(weight), x.dtype, x.device):
        logits = _capped(exact(F.linear(x, weight, bias)), softcap)
        return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    if torch.is_autocast_enabled(kind):
        x = x.to(torch.get_autocast_dtype(kind))
    learns = torch.is_grad_enabled()
    wants = [learns and t is not None and t.requires_grad for t in (x, weight, bias)]
    results = _cross_entropy(x, weight, bias, targets, smoothing, softcap or 0.0, wants)
    loss: Tensor = results[0]
    return loss


@torch.library.custom_op("glassformer::cross_entropy", mutates_args=())
def _cross_entropy(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    softcap: float,
    wants: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns the loss and the gradients of x, weight and bias; those not in `wants` are empty."""
    with torch.autocast(x.device.type, enabled=False):
        return _row_losses(x, weight, bias, targets, smoothing, softcap, wants)


def _row_losses(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    softcap: float,
    wants: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    words, width = weight.shape
    on_gpu = x.is_cuda and x.dtype != torch.float64  # there is a Triton kernel
    columns = round_up(words, EVEN) if on_gpu else words
    matrix = _padded(weight, columns, x.dtype)
    offset = None if bias is None else _padded(bias, columns, x.dtype)
    exact = torch.promote_types(x.dtype, torch.float32)
    losses = x.new_empty(len(x), dtype=exact)
    grad_x, grad_weight, grad_bias = _gradients(x, weight, bias, wants)
    sums = x.new_empty(columns, width, dtype=exact) if wants[1] else None  # gradient of the weight
    step = rows_at_once(len(x), columns, x.dtype, x.device)
    capacity = x.new_empty(step, columns)
    for start in range(0, len(x), step):
        part = slice(start, start + step)
        rows, logits = x[part], capacity[: len(x[part])]
        if offset is None:
            torch.mm(rows, matrix.t(), out=logits)
        else:
            torch.addmm(offset, rows, matrix.t(), out=logits)
        if on_gpu:
            from glassformer.train.triton_cross_entropy import cross_entropy_rows

            cross_entropy_rows(
                logits, targets[part], losses[part], words, smoothing, softcap, IGNORE
            )
            gradient = logits
        else:
            losses[part], gradient = _loss_and_gradient(
                logits, targets[part], exact, smoothing, softcap
            )
        if wants[0]:
            torch.mm(gradient, matrix, out=grad_x[part])
        if sums is not None:
            _add_product(sums, gradient, rows, first=start == 0)
        if wants[2]:
            grad_bias += gradient[:, :words].sum(0, dtype=exact)
    if sums is not None:
        grad_weight = sums[:words].to(weight.dtype)
    return losses.sum(), grad_x, grad_weight, grad_bias


def _padded(matrix: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    if len(matrix) == rows:
        return matrix.to(dtype)
    padded = matrix.new_zeros(rows, *matrix.shape[1:], dtype=dtype)
    padded[: len(matrix)] = matrix
    return padded


def _add_product(sums: Tensor, gradient: Tensor, rows: Tensor, first: bool) -> None:
    """Computes sums += gradient^T rows in the finer dtype of the sums; `first` overwrites them."""
    old = 0 if first else 1
    if gradient.dtype == sums.dtype:
        sums.addmm_(gradient.t(), rows, beta=old)
    elif sums.is_cuda:
        torch.addmm(sums, gradient.t(), rows, out_dtype=sums.dtype, beta=old, out=sums)
    elif first:
        sums.copy_(gradient.t() @ rows)
    else:
        sums += gradient.t() @ rows


def _loss_and_gradient(
    logits: Tensor, targets: Tensor, exact: torch.dtype, smoothing: float, softcap: float
) -> tuple[Tensor, Tensor]:
    """Returns the loss of each row and, in the dtype of the logits, its gradient."""
    z = _capped(logits.to(exact), softcap)
    log = z.log_softmax(-1)
    real = targets.ne(IGNORE)
    gold = torch.where(real, targets, 0)[:, None]
    losses = (smoothing - 1) * log.gather(1, gold)[:, 0]
    if smoothing:
        losses -= smoothing * log.mean(-1)
    gradient = log.exp_()
    if smoothing:
        gradient -= smoothing / logits.shape[1]
    gradient.scatter_add_(1, gold, gradient.new_full(gold.shape, smoothing - 1.0))
    if softcap:
        gradient *= 1 - (z / softcap) ** 2
    gradient[~real] = 0.0
    return torch.where(real, losses, 0.0), gradient.to(logits.dtype)


def _gradients(
    x: Tensor, weight: Tensor, bias: Tensor | None, wants: list[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    """Allocates the gradients that are wanted."""
    grad_x = torch.empty_like(x) if wants[0] else x.new_empty(0)
    grad_weight = torch.empty_like(weight) if wants[1] else weight.new_empty(0)
    grad_bias = weight.new_empty(0) if bias is None or not wants[2] else torch.zeros_like(bias)
    return grad_x, grad_weight, grad_bias


@_cross_entropy.register_fake
def _(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    softcap: float,
    wants: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    loss = x.new_empty((), dtype=torch.promote_types(x.dtype, torch.float32))
    return loss, *_gradients(x, weight, bias, wants)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.wants = inputs[-1]
    ctx.save_for_backward(*output[1:])


def _backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    pairs = zip(ctx.saved_tensors, ctx.wants, strict=True)
    grads = [gradient * grad if wanted else None for gradient, wanted in pairs]
    return *grads, None, None, None, None


_cross_entropy.register_autograd(_backward, setup_context=_keep)
