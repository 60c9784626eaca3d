"""Tensor parallelism: processes share the matrices of every layer (Shoeybi et al., 2019).

The first matrix of attention and of the feed-forward layer is split by rows, which are heads and
inner units, the second by columns. Between them, each process computes with its own part; after the
second matrix the results are summed. Everything else is replicated in all processes.

Weights are DTensors over the processes. During a layer's forward pass they are replaced by this
process's part, a plain tensor, so that layers need no special code. It is written here, because
torch's `parallelize_module` cannot split a weight that joins several matrices, such as `qkv`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from glassformer import adapters
from glassformer.core import Transformer
from glassformer.core.block import Block
from glassformer.core.linear import Linear
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.spec import (
    AlibiSpec,
    AttentionSpec,
    BlockSparsePattern,
    BlockSpec,
    ModelSpec,
    RotarySpec,
    T5BiasSpec,
)

FITTING = (T5BiasSpec, AlibiSpec, RotarySpec)  # position encodings that treat each head separately


@dataclass
class ShardPlan:
    """The row order of sharded matrices.

    In concatenated matrices the rows are ordered by process, with each process's share of every
    block. Checkpoints and exported models order them by block: `orders` maps the name of a weight
    to the index of each of our rows there.
    """

    mesh: DeviceMesh | None = None  # [data, tensor]
    flat: DeviceMesh | None = None  # the same processes in one dimension
    orders: dict[str, Tensor] = field(default_factory=dict)

    def plain(self, name: str, tensor: Tensor) -> Tensor:
        """Returns the full tensor, as a single process would have it."""
        full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        return full if name not in self.orders else full[self.orders[name].argsort()]

    def saved(self, name: str, tensor: Tensor) -> Tensor:
        """Returns a tensor as stored in checkpoints, with an even share of rows per process."""
        if name not in self.orders or not isinstance(tensor, DTensor):
            return tensor
        full = self.plain(name, tensor)
        return distribute_tensor(full, self.flat, [Shard(0)], src_data_rank=None)

    def restore(self, name: str, tensor: Tensor, saved: Tensor) -> None:
        """Copies a tensor loaded from a checkpoint into the sharded tensor."""
        if name not in self.orders or not isinstance(tensor, DTensor):
            return
        assert isinstance(saved, DTensor) and self.mesh is not None
        own = saved.full_tensor()[self.orders[name]]
        own = own.chunk(self.mesh["tensor"].size())[self.mesh.get_local_rank("tensor")]
        if tensor.device_mesh.ndim == 2:
            shares = own.chunk(self.mesh["data"].size())
            rank = self.mesh.get_local_rank("data")
            own = shares[rank] if rank < len(shares) else own[:0]
        tensor.to_local().copy_(own)

    @contextmanager
    def unsharded_layers(self, root: nn.Module) -> Iterator[None]:
        """Restores the unsharded heights of the layers inside the context."""
        degree = 1 if self.mesh is None else self.mesh["tensor"].size()
        layers = {root.get_submodule(name.rpartition(".")[0]) for name in self.orders}
        split = {layer: layer.parts for layer in layers if isinstance(layer, Linear)}
        try:
            for layer, parts in split.items():
                layer.parts = tuple(height * degree for height in parts)
            yield
        finally:
            for layer, parts in split.items():
                layer.parts = parts


def split_layers(root: nn.Module, mesh: DeviceMesh) -> ShardPlan:
    """Splits the matrices of all blocks over the tensor dimension of the mesh.

    Args:
        root: Module that contains the networks; it is changed in place.
        mesh: Mesh of [data, tensor] processes.

    Returns:
        The row order of the sharded weights.
    """
    tensor = mesh["tensor"]
    models = [model for model in root.modules() if isinstance(model, Transformer)]
    blocks = [block for model in models for block in model.modules() if isinstance(block, Block)]
    for model in models:
        if adapters.active(model) is not None:
            raise UnsupportedError(
                "Adapters do not support scale.tensor_parallel_size; leave one of them out.",
                field="scale.tensor_parallel_size",
            )
        check_shares(model.spec, tensor.size())
    orders: dict[str, Tensor] = {}
    names = {module: name for name, module in root.named_modules()}
    for block in blocks:
        plan: dict[str, ParallelStyle] = {"ffn.up": RowParallel(), "ffn.down": ColumnParallel()}
        for part, first in {"attention": ["qkv"], "cross": ["q", "kv"]}.items():
            if hasattr(block, part):
                plan |= {f"{part}.{name}": RowParallel() for name in first} | {
                    f"{part}.out": ColumnParallel()
                }
        for path in plan:
            layer = block.get_submodule(path)
            assert isinstance(layer, Linear)
            if isinstance(plan[path], RowParallel) and len(layer.parts) > 1:
                for leaf, parts in _heights(layer).items():
                    orders[f"{names[layer]}.{leaf}"] = row_order(parts, tensor.size())
        parallelize_module(block, tensor, plan)
    _replicate(root, tensor)
    for model in models:
        for position in (p for stack in model.children() for p in getattr(stack, "positions", ())):
            position.register_forward_hook(_own_heads(tensor))
            _sum_gradients(position, tensor)
    for block in blocks:
        for path, module in block.named_modules():
            if path.endswith(("q_norm", "k_norm")):
                _sum_gradients(module, tensor)
    layers = [*blocks, *(part for block in blocks for part in parts_of(block))]
    for unit in (*layers, *models, root):
        unit.forward = _Local(unit, layers)
    flat = init_device_mesh(mesh.device_type, (mesh.size(),), mesh_dim_names=("all",))
    return ShardPlan(mesh, flat, orders)


def parts_of(block: Block) -> list[nn.Module]:
    """Returns the modules that hold a block's matrices, which FSDP2 gathers together."""
    names = ("attention", "cross", "ffn")
    return [getattr(block, name) for name in names if hasattr(block, name)]


class RowParallel(ParallelStyle):
    """Splits a linear layer by outputs, each concatenated block separately."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        assert isinstance(module, Linear)
        degree = device_mesh.size()
        for leaf, parts in _heights(module).items():
            weight = module.get_parameter(leaf)
            rows = weight.detach()[row_order(parts, degree)]
            module.register_parameter(leaf, _shared(rows, device_mesh, Shard(0), weight))
        module.parts = tuple(height // degree for height in module.parts)
        module.register_forward_pre_hook(lambda _, given: (seen_by_all(given[0], device_mesh),))
        return module


class ColumnParallel(ParallelStyle):
    """Splits a linear layer by inputs: each process computes one summand of all outputs."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        assert isinstance(module, Linear)
        weight = module.weight
        module.weight = _shared(weight.detach(), device_mesh, Shard(1), weight)

        def forward(x: Tensor) -> Tensor:
            y = added_up(F.linear(x, module.weight), device_mesh)
            return y if module.bias is None else y + module.bias

        module.forward = forward  # type: ignore[method-assign]
        return module


def seen_by_all(x: Tensor, mesh: DeviceMesh) -> Tensor:
    """Passes on an input that every process uses differently; its gradients are summed."""
    shared = DTensor.from_local(x, mesh, [Replicate()], run_check=False)
    return shared.to_local(grad_placements=[Partial()])


def added_up(x: Tensor, mesh: DeviceMesh) -> Tensor:
    """Returns the sum over the processes; the gradient is passed to each unchanged."""
    summands = DTensor.from_local(x, mesh, [Partial()], run_check=False)
    return summands.redistribute(placements=[Replicate()]).to_local()


def row_order(parts: tuple[int, ...], degree: int) -> Tensor:
    """Returns the row indices of concatenated blocks, ordered by process and then by block."""
    starts = torch.tensor([0, *parts]).cumsum(0)
    return torch.cat(
        [
            start + torch.arange(rank * height // degree, (rank + 1) * height // degree)
            for rank in range(degree)
            for start, height in zip(starts.tolist(), parts, strict=False)
        ]
    )


class _Local:
    """A forward pass that sees this process's part of the weights.

    Layers inside the module have such a forward pass themselves and are left out.
    """

    def __init__(self, unit: nn.Module, layers: Sequence[nn.Module]) -> None:
        self._forward = unit.forward
        mine = list(unit.modules())  # in the same order on all processes, and so are the sums
        nested = set(layers).intersection(mine[1:])
        theirs = {module for layer in nested for module in layer.modules()}
        self._modules = [module for module in mine if module not in theirs]

    def __call__(self, *given: Any, **named: Any) -> Any:
        shared: list[tuple[nn.Module, str, Any]] = [
            (module, leaf, weight)
            for module in self._modules
            for leaf, weight in module._parameters.items()
            if isinstance(weight, DTensor)
        ]
        parts: dict[int, Tensor] = {}
        for module, leaf, weight in shared:
            if id(weight) not in parts:  # tied weights stay tied
                parts[id(weight)] = weight.to_local()
            own = parts[id(weight)]
            mesh: DeviceMesh | None = getattr(module, "sums_gradients", None)
            module._parameters[leaf] = own if mesh is None else seen_by_all(own, mesh)  # type: ignore[assignment]
        try:
            return self._forward(*given, **named)
        finally:
            for module, leaf, weight in shared:
                module._parameters[leaf] = weight


def _sum_gradients(module: nn.Module, mesh: DeviceMesh) -> None:
    """Marks weights that all heads share; each process has the gradient of its own heads."""
    for part in module.modules():
        part.sums_gradients = mesh  # type: ignore[assignment]


def _own_heads(mesh: DeviceMesh) -> Callable[..., Any]:
    """Returns a hook that selects this process's heads of a bias.

    The bias is [batch or 1, head, query, key].
    """

    def hook(module: nn.Module, given: Any, turned: tuple[Any, ...]) -> tuple[Any, ...]:
        q, k, bias = turned
        if bias is not None:
            bias = bias.narrow(1, mesh.get_local_rank() * q.shape[1], q.shape[1])
        return q, k, bias

    return hook


def _replicate(root: nn.Module, mesh: DeviceMesh) -> None:
    """Turns the other weights into DTensors, too, so that optimizers see one kind of weight."""
    made: dict[int, nn.Parameter] = {}
    for module in root.modules():
        for leaf, weight in module._parameters.items():
            if weight is not None and not isinstance(weight, DTensor):
                if id(weight) not in made:
                    made[id(weight)] = _shared(weight.detach(), mesh, Replicate(), weight)
                module._parameters[leaf] = made[id(weight)]


def _shared(tensor: Tensor, mesh: DeviceMesh, placement: Placement, like: Tensor) -> nn.Parameter:
    shared = distribute_tensor(tensor, mesh, [placement], src_data_rank=None)
    return nn.Parameter(shared, requires_grad=like.requires_grad)


def _heights(layer: Linear) -> dict[str, tuple[int, ...]]:
    """Returns the heights of the blocks that form a layer's weight and bias."""
    found = {"weight": layer.parts}
    if layer.bias is not None:
        pairs = zip(layer.parts, layer.biased, strict=True)
        found["bias"] = tuple(height for height, biased in pairs if biased)
    return found


def check_shares(spec: ModelSpec, degree: int) -> None:
    """Raises an error if some layer cannot be split into so many parts."""
    stacks = [stack for stack in (spec.encoder, spec.decoder) if stack is not None]
    for block in (block for stack in stacks for block in stack.attention_blocks):
        for attention in (block.attention, block.cross):
            if attention is not None:
                _check_attention(attention, block, degree)
        if block.ffn.width % degree:
            raise ConfigError(
                f"scale.tensor_parallel_size = {degree} does not divide feed-forward layers of "
                f"{block.ffn.width} units; choose a number that does."
            )
        if any(stack.layer_dropout for stack in stacks):
            raise UnsupportedError(
                "Randomly dropped layers do not support scale.tensor_parallel_size.",
                field="scale.tensor_parallel_size",
            )


def _check_attention(attention: AttentionSpec, block: BlockSpec, degree: int) -> None:
    for heads in (attention.heads, attention.key_heads):
        if heads % degree:
            raise ConfigError(
                f"scale.tensor_parallel_size = {degree} does not divide {heads} heads; choose a "
                "number that does."
            )
    special = (
        attention.score != "dot"
        or attention.compression_factor
        or attention.separate_global_projections
    )
    fits = block.position is None or isinstance(block.position, FITTING)
    if special or not fits or isinstance(block.pattern, BlockSparsePattern):
        raise UnsupportedError(
            "This model's attention cannot be split by heads; leave scale.tensor_parallel_size "
            "at 1 and use scale.parallel = 'fsdp'.",
            field="scale.tensor_parallel_size",
        )
