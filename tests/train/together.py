"""Trains recipes, each in so many processes. `python together.py RUNS.json`: a list of [recipe,
processes, overrides], one after the other; processes are forked from this one, which has imported
everything and computed nothing, and find each other as torchrun would have told them.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from pathlib import Path

import torch
import torch.distributed.fsdp

import glassformer as gf
import glassformer.train.start
from glassformer.train.interrupt import Interrupted
from glassformer.train.objectives import objectives
from glassformer.train.reporter import Reporter


class Stop(Reporter):
    """Asks to stop at a step, as Ctrl-C does."""

    def __init__(self, at: int) -> None:
        self.at = at

    def step(self, entry):
        if entry["step"] == self.at:
            os.kill(os.getpid(), 2)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


def train(recipe: dict, overrides: list[str], rank: int, world: int, port: int) -> int:
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_PORT": port}
    os.environ.update({key: str(value) for key, value in told.items()}, MASTER_ADDR="localhost")
    torch.set_num_threads(1)
    stop = recipe.pop("stop", None)
    try:
        gf.train(recipe, overrides, reporters=[Stop(stop)] if stop else [])
    except Interrupted:
        return 0 if stop else 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    objectives()
    for recipe, world, overrides in json.loads(Path(sys.argv[1]).read_text()):
        port, children = free_port(), []
        for rank in range(world):
            child = os.fork()
            if child == 0:
                code = train(recipe, overrides, rank, world, port)
                sys.stderr.flush()
                os._exit(code)
            children.append(child)
        codes = [os.waitpid(child, 0)[1] for child in children]
        if any(codes):
            sys.exit(f"{overrides} on {world}: {codes}")
