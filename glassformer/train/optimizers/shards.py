"""Matrices that processes share, for rules that need them whole."""

from __future__ import annotations

from torch import Tensor


def local(tensor: Tensor) -> Tensor:
    """This process's share of it."""
    share: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return share


def whole(tensor: Tensor) -> Tensor:
    """All of it, gathered from the processes that share it."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered


def shared_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Of a tensor that every process has whole, what it keeps of one that is shared as `like` is;
    nothing is sent."""
    if not hasattr(like, "full_tensor"):
        return tensor
    from torch.distributed.tensor import DTensor, Replicate

    assert isinstance(like, DTensor)
    mesh = like.device_mesh
    everywhere = DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return everywhere.redistribute(placements=like.placements)
