"""What a position encoding inside attention returns.

A position module maps (q, k, ctx, attention) to (q, k, bias): rotary positions rotate queries and
keys, the others return a bias of [batch or 1, head, query, key] that is added to the scaled scores.
"""

from __future__ import annotations

from torch import Tensor

PositionResult = tuple[Tensor, Tensor, Tensor | None]
