"""Norms of half-precision tensors in mixed precision."""

from __future__ import annotations

import pytest
import torch

from glassformer import spec
from glassformer.core.norm import make_norm

NARROW = 2**-8  # bfloat16's relative rounding


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("offset", [False, True])
def test_a_narrow_stream_is_normed_as_a_wide_one_and_stays_narrow(kind, offset):
    torch.manual_seed(0)
    norm = make_norm(64, spec.NormSpec(kind=kind, unit_offset=offset and kind == "rms"))
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter, 1.0, 0.3)
    x, y = 3 * torch.randn(2, 5, 64) + 1, torch.randn(2, 5, 64)
    x, y = x.bfloat16(), y.bfloat16()
    found = []
    for wide in (True, False):
        given = (x.float() if wide else x.clone()).requires_grad_()
        norm.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=not wide):
            out = norm(given)
        (out.float() * y.float()).sum().backward()
        found.append((out.detach(), given.grad, [p.grad.clone() for p in norm.parameters()]))
    (exact, slope, slopes), (out, narrow_slope, narrow_slopes) = found
    assert offset or out.dtype == torch.bfloat16
    assert torch.allclose(out.float(), exact, rtol=2 * NARROW, atol=2 * NARROW)
    assert torch.allclose(narrow_slope.float(), slope, rtol=4 * NARROW, atol=4 * NARROW)
    for one, other in zip(narrow_slopes, slopes, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 2 * NARROW * other.norm()
