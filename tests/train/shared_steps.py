"""Two processes take steps on weights that they share, which equal steps on whole ones."""

from __future__ import annotations

import copy
import sys

import torch.distributed as dist
from optimizing import Settings, give_gradients, task, transformer
from together import forked
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor

from glassformer.train.optimizers import OPTIMIZERS, make_optimizer


def main(rank: int) -> int:
    dist.init_process_group("gloo")
    for kind in OPTIMIZERS.all():
        settings = Settings(optimizer=kind)
        alone = transformer("llama", "LlamaForCausalLM", num_hidden_layers=1)
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
    return 0


if __name__ == "__main__":
    if any(forked(2, main)):
        sys.exit("they differ")
