"""Run as one of several processes: steps on weights that they share equal steps on whole ones."""

from __future__ import annotations

import copy
import sys

import torch
import torch.distributed as dist
from optimizing import Settings, give_gradients, net, task
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor

from glassformer.train.optimizers import OPTIMIZERS, make_optimizer


def main(store: str, rank: int, size: int) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    for kind in OPTIMIZERS.all():
        settings = Settings(optimizer=kind)
        alone = net("llama", "LlamaForCausalLM", num_hidden_layers=1)
        shared = copy.deepcopy(alone)
        for block in shared.decoder.blocks:
            fully_shard(block)
        fully_shard(shared)
        one, all_of_us = (
            make_optimizer(task(alone), settings),
            make_optimizer(task(shared), settings),
        )
        for step in range(2):
            give_gradients(alone, step)
            for whole, part in zip(alone.parameters(), shared.parameters(), strict=True):
                part.grad = distribute_tensor(whole.grad, part.device_mesh, part.placements)
            one.step()
            all_of_us.step()
        for (name, whole), part in zip(alone.named_parameters(), shared.parameters(), strict=True):
            assert part.to_local().numel() < whole.numel()
            difference = float((whole - part.full_tensor()).abs().max())
            assert difference < 1e-6, f"{kind}: {name} differs by {difference}"
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
