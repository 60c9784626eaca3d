"""Train room, the step on a CPU: attention and GELU by kernels of our own, where tensors have a
form that they know; torch's otherwise, and on a machine without a compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer import native

SOURCE = Path(__file__).with_name("cpu.cpp")
HEADERS = (SOURCE.with_name("product.h"), SOURCE.parents[1] / "generate" / "numbers.h")
ACTIVATIONS = {"none": 3, "tanh": 4}  # GELU's kinds, as numbers.h counts them
FEW = 2**14  # numbers, below which starting threads takes longer than what they do

Int, Pointer = ctypes.c_int64, ctypes.c_void_p


class _Heads(ctypes.Structure):
    _fields_ = [("at", Pointer), ("batch", Int), ("head", Int), ("position", Int)]


class _Attention(ctypes.Structure):
    _fields_ = [
        *((name, _Heads) for name in ("q", "k", "v", "z")),
        *((name, _Heads) for name in ("grad_q", "grad_k", "grad_v", "grad_z")),
        ("sizes", Pointer),
        *((name, Int) for name in ("batch", "heads", "groups", "queries", "keys", "dim")),
        *((name, ctypes.c_int32) for name in ("causal", "threads")),
        ("scale", ctypes.c_float),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """None where there is no compiler, or where it fails."""
    found = native.library(SOURCE, *HEADERS)
    if found is None:
        return None
    found.size.restype = Int
    assert found.size() == ctypes.sizeof(_Attention)
    number = ctypes.c_int
    found.attention.argtypes = (Pointer, number)
    found.activation.argtypes = (number, Pointer, Pointer, Pointer, Int, number)
    found.attention.restype = found.activation.restype = None
    return found


def own_kernels(device: torch.device) -> AbstractContextManager[Any]:
    """Inside, functions of torch that have a kernel here are computed by it, and later their
    gradients. A layer that is computed again must be so inside of it, too."""
    if device.type != "cpu" or library() is None:
        return nullcontext()
    return _Own()


class _Own(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return OWN.get(func, func)(*args, **(kwargs or {}))


def _plain(*tensors: Tensor) -> bool:
    """Float32 that lies here as one piece: a share of another process's matrix is none."""
    return not torch.is_autocast_enabled("cpu") and all(
        type(x) in (Tensor, nn.Parameter) and x.dtype == torch.float32 and x.device.type == "cpu"
        for x in tensors
    )


LANES = 16  # a multiple of what any machine's vectors hold


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
    known = attn_mask is None and dropout_p == 0.0 and _plain(q, k, v) and q.ndim == 4
    known = known and q.shape[-1] == v.shape[-1] and q.shape[-1] % LANES == 0
    known = known and all(x.stride(-1) == 1 for x in (q, k, v)) and q.numel() >= FEW
    if known and (not is_causal or q.shape[2] == k.shape[2]):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        z: Tensor = _Attend.apply(q, k, v, is_causal, scale)  # type: ignore[no-untyped-call]
        return z
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


@torch.library.custom_op("glassformer::attend", mutates_args=(), device_types="cpu")
def _attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """The result, and the logarithms of the sums of exponentials."""
    z, sizes = _attend_room(q, k, v, causal, scale)
    _library().attention(ctypes.byref(_described(q, k, v, z, sizes, causal, scale)), False)
    return z, sizes


@_attend.register_fake
def _attend_room(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    return _room(q), q.new_empty(q.shape[:3])


@torch.library.custom_op("glassformer::attend_backward", mutates_args=(), device_types="cpu")
def _attend_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    z: Tensor,
    sizes: Tensor,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    grad = grad if grad.stride(-1) == 1 else grad.contiguous()
    grads = _room(q), _room(k), _room(v)
    about = _described(q, k, v, z, sizes, causal, scale)
    about.grad_q, about.grad_k, about.grad_v, about.grad_z = map(_heads, (*grads, grad))
    _library().attention(ctypes.byref(about), True)
    return grads


@_attend_backward.register_fake
def _(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    z: Tensor,
    sizes: Tensor,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return _room(q), _room(k), _room(v)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
        z: Tensor
        z, sizes = _now(_attend)(q, k, v, causal, scale)
        ctx.save_for_backward(q, k, v, z, sizes)
        ctx.options = causal, scale
        return z

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grads = _now(_attend_backward)(grad, *ctx.saved_tensors, *ctx.options)
        return *grads, None, None


def _room(like: Tensor) -> Tensor:
    """The heads of a position side by side, as what follows reads them."""
    batch, heads, length, dim = like.shape
    return like.new_empty(batch, length, heads, dim).transpose(1, 2)


def _described(
    q: Tensor, k: Tensor, v: Tensor, z: Tensor, sizes: Tensor, causal: bool, scale: float
) -> _Attention:
    batch, heads, queries, dim = q.shape
    about = _Attention(*map(_heads, (q, k, v, z)), sizes=sizes.data_ptr())
    about.batch, about.heads, about.queries, about.dim = batch, heads, queries, dim
    about.groups, about.keys = heads // k.shape[1], k.shape[2]
    about.causal, about.scale, about.threads = causal, scale, torch.get_num_threads()
    return about


def _heads(x: Tensor) -> _Heads:
    return _Heads(x.data_ptr(), *x.stride()[:3])


# --- GELU ----------------------------------------------------------------------------------------


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    compiling = torch.compiler.is_compiling()  # the compiler's is as quick, and takes part in more
    if not compiling and _plain(x) and x.is_contiguous() and x.numel() >= FEW:
        y: Tensor = _Gelu.apply(x, ACTIVATIONS[approximate])  # type: ignore[no-untyped-call]
        return y
    return F.gelu(x, approximate=approximate)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kind: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.kind = kind
        return _activated(x, None, kind)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return _activated(x, grad.contiguous(), ctx.kind), None


def _activated(x: Tensor, grad: Tensor | None, kind: int) -> Tensor:
    y, threads = torch.empty_like(x), torch.get_num_threads()
    slopes = None if grad is None else grad.data_ptr()
    _library().activation(kind, x.data_ptr(), slopes, y.data_ptr(), x.numel(), threads)
    return y


# --- what both share -----------------------------------------------------------------------------


def _library() -> ctypes.CDLL:
    found = library()
    assert found is not None
    return found


def _now(op: Any) -> Callable[..., Any]:
    """To a compiler, one operation; by itself, the function, which saves the way there."""
    function: Callable[..., Any] = op if torch.compiler.is_compiling() else op._init_fn
    return function


OWN: dict[Callable[..., Any], Callable[..., Any]] = {
    F.scaled_dot_product_attention: attention,
    F.gelu: gelu,
}
