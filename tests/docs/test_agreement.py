"""Comparison of documented and printed output, which may differ by rounding."""

from __future__ import annotations

from agreement import agree


def test_what_is_shown_is_compared_with_what_is_printed():
    assert agree("tensor([ 0.00, -0.61])\n", "tensor([-0.00, -0.62])")
    assert not agree("tensor([0.61])", "tensor([0.63])")
    assert not agree("lord 0.81", "queen 0.81")
    assert not agree("4 tokens", "5 tokens")
    assert not agree("", "something")
    assert not agree("0.81", "0.81 0.02")
