"""Conversion between sharded and full tensors, for update rules that need whole matrices."""

from __future__ import annotations

from torch import Tensor


def local(tensor: Tensor) -> Tensor:
    """Returns this process's shard."""
    share: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return share


def full_tensor(tensor: Tensor) -> Tensor:
    """Returns the full tensor, gathered from the processes that share it."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered


def shared_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Shards a tensor that every process has in full like another tensor, without communication."""
    if not hasattr(like, "full_tensor"):
        return tensor
    from torch.distributed.tensor import DTensor, Replicate

    assert isinstance(like, DTensor)
    mesh = like.device_mesh
    everywhere = DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return everywhere.redistribute(placements=like.placements)
