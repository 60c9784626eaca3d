"""The message of `check` if float32 rounding exceeds the tolerance."""

from __future__ import annotations

import pytest
import torch

from glassformer.check import EXACT, TOLERANCE, check
from glassformer.core import Transformer


def test_rounding_is_told_from_a_fault_and_is_a_difference():
    result = check("letters")
    assert result.logits > TOLERANCE and not result.close and not result.equal
    assert result.finer < EXACT and result.rounded


@pytest.mark.parametrize("broken", [torch.float32, torch.float64])
def test_a_fault_in_either_precision_is_not_rounding(broken, monkeypatch):
    forward = Transformer.forward

    def faulty(self, *given, **more):
        out = forward(self, *given, **more)
        if out.last_hidden_state.dtype == broken:
            out.head_outputs["lm"].add_(2e-4 if broken == torch.float32 else 1e-9)
        return out

    monkeypatch.setattr(Transformer, "forward", faulty)
    assert not check("letters").rounded
