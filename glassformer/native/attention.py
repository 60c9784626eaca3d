"""Python interface of the C++ kernels for attention and GELU on a CPU."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer import native

SOURCE = Path(__file__).with_name("attention.cpp")
HEADERS = (SOURCE.with_name("small_gemm.h"), native.NUMBERS)
ACTIVATIONS = {"none": 3, "tanh": 4}  # GELU variants, as numbered in simd.h
LANES = 16  # a multiple of any machine's SIMD vector width
FEW = 2**14  # numbers; below this, starting threads takes longer than the work

Int, Pointer = ctypes.c_int64, ctypes.c_void_p


class _Heads(ctypes.Structure):
    _fields_ = [("at", Pointer), ("batch", Int), ("head", Int), ("position", Int)]


class _Attention(ctypes.Structure):
    _fields_ = [
        *((name, _Heads) for name in ("q", "k", "v", "z")),
        *((name, _Heads) for name in ("grad_q", "grad_k", "grad_v", "grad_z")),
        *((name, Pointer) for name in ("sizes", "shown", "runs")),
        *((name, Int) for name in ("batch", "heads", "groups", "queries", "keys", "dim")),
        *((name, ctypes.c_int32) for name in ("causal", "threads")),
        ("scale", ctypes.c_float),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """Returns the compiled kernels, or None without a compiler or if compilation fails."""
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


def plain(*tensors: Tensor) -> bool:
    """Whether tensors are ordinary float32 on this CPU, not e.g. shards of a distributed matrix."""
    return not torch.is_autocast_enabled("cpu") and all(
        type(x) in (Tensor, nn.Parameter) and x.dtype == torch.float32 and x.device.type == "cpu"
        for x in tensors
    )


def knows_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
) -> bool:
    """Whether the kernel supports the inputs. `mask` may hide keys per text, [batch, 1, 1, key]."""
    wide = q.ndim == 4 and q.shape[-1] == v.shape[-1] and q.shape[-1] % LANES == 0
    known = wide and q.numel() >= FEW and plain(q, k, v)
    known = known and all(x.stride(-1) == 1 for x in (q, k, v))
    square = not causal or (mask is None and q.shape[2] == k.shape[2])
    hides_keys = mask is None or (
        mask.dtype == torch.bool and mask.shape == (q.shape[0], 1, 1, k.shape[2])
    )
    return known and square and hides_keys


MOST_KEYS = 1024


def prefers_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> bool:
    """Whether to use the kernel for inference; training calls it separately.

    With more than `MOST_KEYS` keys, torch's own sums are closer to the reference.
    """
    now = not torch.is_grad_enabled() and not torch.compiler.is_compiling()
    few = k.shape[-2] <= MOST_KEYS
    return now and few and knows_attention(q, k, v, mask, causal) and library() is not None


def attend(
    q: Tensor,  # [batch, head, query, dim]
    k: Tensor,  # [batch, key head, key, dim]
    v: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Returns the attention output, and the log-sum-exp of the scores."""
    z, sizes = new_heads(q), q.new_empty(q.shape[:3])
    shown = _shown(mask)
    about = _described(q, k, v, z, sizes, shown, causal, scale)
    _library().attention(ctypes.byref(about), False)
    return z, sizes


def attend_runs(
    q: Tensor, k: Tensor, v: Tensor, runs: Tensor, causal: bool, scale: float
) -> Tensor:
    """Returns attention within each run of texts in one row, [1, head, position, dim].

    `runs` are the offsets of the texts.
    """
    z, sizes = new_heads(q), q.new_empty(q.shape[:3])
    starts = runs.int().contiguous()
    about = _described(q, k, v, z, sizes, None, causal, scale)
    about.runs, about.batch = starts.data_ptr(), len(starts) - 1
    _library().attention(ctypes.byref(about), False)
    return z


def attend_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    z: Tensor,
    sizes: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of queries, keys and values."""
    grad = grad if grad.stride(-1) == 1 else grad.contiguous()
    grads = new_heads(q), new_heads(k), new_heads(v)
    shown = _shown(mask)
    about = _described(q, k, v, z, sizes, shown, causal, scale)
    about.grad_q, about.grad_k, about.grad_v, about.grad_z = map(_heads, (*grads, grad))
    _library().attention(ctypes.byref(about), True)
    return grads


def new_heads(like: Tensor) -> Tensor:
    """Allocates a tensor with the heads of a position adjacent, as the next layer reads them."""
    batch, heads, length, dim = like.shape
    return like.new_empty(batch, length, heads, dim).transpose(1, 2)


def activated(x: Tensor, grad: Tensor | None, kind: int) -> Tensor:
    """Returns GELU of x, or with `grad` the gradient times GELU's slope at x."""
    y, threads = torch.empty_like(x), torch.get_num_threads()
    slopes = None if grad is None else grad.data_ptr()
    _library().activation(kind, x.data_ptr(), slopes, y.data_ptr(), x.numel(), threads)
    return y


def _shown(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask.flatten(1).contiguous()


def _described(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    z: Tensor,
    sizes: Tensor,
    shown: Tensor | None,
    causal: bool,
    scale: float,
) -> _Attention:
    """Fills in the kernel's arguments as addresses: the caller must keep the tensors alive."""
    batch, heads, queries, dim = q.shape
    about = _Attention(*map(_heads, (q, k, v, z)), sizes=sizes.data_ptr())
    about.shown = None if shown is None else shown.data_ptr()
    about.batch, about.heads, about.queries, about.dim = batch, heads, queries, dim
    about.groups, about.keys = heads // k.shape[1], k.shape[2]
    about.causal, about.scale, about.threads = causal, scale, torch.get_num_threads()
    return about


def _heads(x: Tensor) -> _Heads:
    return _Heads(x.data_ptr(), *x.stride()[:3])


def _library() -> ctypes.CDLL:
    found = library()
    assert found is not None
    return found
