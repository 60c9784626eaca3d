"""Attention and GELU with the library's own CPU kernels (`native/attention.py`) in training.

torch's functions are used for tensor layouts that the kernels do not support, and on machines
without a compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from glassformer.native import attention as cpu


def own_kernels(device: torch.device) -> AbstractContextManager[Any]:
    """Returns a context in which torch functions and their gradients use our kernels.

    A layer that is recomputed in the backward pass must enter the context again.
    """
    if device.type != "cpu" or cpu.library() is None:
        return nullcontext()
    return _Own()


class _Own(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return OWN.get(func, func)(*args, **(kwargs or {}))


# --- attention -----------------------------------------------------------------------------------


def attention(
    q: Tensor,  # [batch, head, query, dim]
    k: Tensor,  # [batch, key head, key, dim]
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Replaces `F.scaled_dot_product_attention`."""
    if dropout_p == 0.0 and cpu.knows_attention(q, k, v, attn_mask, is_causal):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        z: Tensor = _Attend.apply(q, k, v, attn_mask, is_causal, scale)  # type: ignore[no-untyped-call]
        return z
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


HOW: Any = {"mutates_args": (), "device_types": "cpu"}
_attend = torch.library.custom_op("glassformer::attend", cpu.attend, **HOW)
_attend_backward = torch.library.custom_op(
    "glassformer::attend_backward", cpu.attend_backward, **HOW
)


@_attend.register_fake
def _(q: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return cpu.new_heads(q), q.new_empty(q.shape[:3])


@_attend_backward.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    return cpu.new_heads(q), cpu.new_heads(k), cpu.new_heads(v)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float
    ) -> Tensor:
        z: Tensor
        z, sizes = _now(_attend)(q, k, v, mask, causal, scale)
        ctx.save_for_backward(q, k, v, z, sizes, mask)
        ctx.options = causal, scale
        return z

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grads = _now(_attend_backward)(grad, *ctx.saved_tensors, *ctx.options)
        return *grads, None, None, None


# --- GELU ----------------------------------------------------------------------------------------


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """Replaces `F.gelu`."""
    compiling = torch.compiler.is_compiling()  # the compiler's GELU is as fast, and it can be fused
    if not compiling and cpu.plain(x) and x.is_contiguous() and x.numel() >= cpu.FEW:
        y: Tensor = _Gelu.apply(x, cpu.ACTIVATIONS[approximate])  # type: ignore[no-untyped-call]
        return y
    return F.gelu(x, approximate=approximate)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kind: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.kind = kind
        return cpu.activated(x, None, kind)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return cpu.activated(x, grad.contiguous(), ctx.kind), None


# --- shared by both ------------------------------------------------------------------------------


def _now(op: Any) -> Callable[..., Any]:
    """Returns the custom operator while compiling, else the faster plain function."""
    function: Callable[..., Any] = op if torch.compiler.is_compiling() else op._init_fn
    return function


OWN: dict[Callable[..., Any], Callable[..., Any]] = {
    F.scaled_dot_product_attention: attention,
    F.gelu: gelu,
}
