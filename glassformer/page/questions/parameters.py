"""Page room, questions about parameters: the table, and how the numbers of one are distributed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glassformer.page.asked import Asked
from glassformer.page.session import Session
from glassformer.table import parts_of


def parameters(session: Session, asked: Asked) -> dict[str, Any]:
    net = session.model(asked.text("model")).net
    tensors = dict(net.state_dict(keep_vars=True))
    parts = []
    for part in parts_of(net):
        tensor = tensors.get(part.name)
        said = {"dtype": None, "norm": None}
        if tensor is not None:
            norm = float(tensor.detach().float().norm())
            said = {"dtype": str(tensor.dtype).removeprefix("torch."), "norm": norm}  # type: ignore[dict-item]
        parts.append({**asdict(part), **said})
    return {"total": sum(p.numel() for p in net.parameters()), "parts": parts}
