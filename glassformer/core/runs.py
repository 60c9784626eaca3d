"""Room 3, core: texts of several lengths as one long row, for a kernel that is told where each
begins. It spends nothing on masks, and knows dropout."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.core.context import Context
from glassformer.native import cpu
from glassformer.spec import CAUSAL, FULL, Blocks, Pattern


def prefers_runs(q: Tensor, k: Tensor, pattern: Pattern | Blocks, ctx: Context) -> bool:
    """On a GPU in half precision, on a CPU by our own kernel, where the batch says how its texts
    lie."""
    plain = pattern in (FULL, CAUSAL) and ctx.prefix is None and ctx.global_tokens is None
    alone = ctx.permutation is None and ctx.cache is None and not ctx.blanks
    fits = q.is_cuda and q.dtype.itemsize == 2 and q.shape[2] == k.shape[2] and q.shape[3] % 8 == 0
    if ctx.runs is None or not (plain and alone):
        return False
    return fits or (len(q) == 1 and cpu.prefers_attention(q, k, k, None, pattern == CAUSAL))


def runs_attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float, ctx: Context, pattern: Pattern | Blocks, p: float
) -> Tensor:
    """`p` is the dropout's. What stands where there is only padding means nothing."""
    if not q.is_cuda:
        assert ctx.runs is not None
        return cpu.attend_runs(q, k, v, ctx.runs, pattern == CAUSAL, scale)
    batch, heads, length, dim = q.shape
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))  # [batch * position, head, dim]
    sizes = (ctx.runs, ctx.runs, length, length)
    out: Tensor = torch.ops.aten._flash_attention_forward(
        q, k, v, *sizes, p, pattern == CAUSAL, False, scale=scale
    )[0]
    return out.view(batch, length, heads, dim).transpose(1, 2)
