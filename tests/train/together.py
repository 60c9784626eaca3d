"""Trains recipes, each in so many processes. `python together.py RUNS.json`: a list of {"recipe",
"world", "said": what is to be otherwise, "stop": when this step is logged, "kill": a rank, the
function in which it dies and after how many calls, "like": a run folder to go on from}, one after
the other. Processes are forked from this one, which has imported everything and computed nothing,
and find each other as torchrun would have told them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.distributed.fsdp
from killed import kill_in

import glassformer as gf
import glassformer.train.trainer
from glassformer.train.interrupt import TrainingInterrupted
from glassformer.train.objectives import objective_names
from glassformer.train.objectives.registry import find_objective
from glassformer.train.reporter import Reporter


class Stop(Reporter):
    """Asks to stop at a step, as Ctrl-C does."""

    def __init__(self, at: int) -> None:
        self.at = at

    def step(self, entry):
        if entry["step"] == self.at:
            os.kill(os.getpid(), signal.SIGINT)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


def forked(world: int, do: Callable[[int], int]) -> list[int]:
    """How `do`, told its rank, has ended in each of so many processes that can find each other."""
    told = {"WORLD_SIZE": str(world), "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            os.environ.update(told, RANK=str(rank), LOCAL_RANK=str(rank))
            torch.set_num_threads(1)
            code = 1
            try:
                code = do(rank)
            except BaseException:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(code)
        children.append(child)
    return [os.waitpid(child, 0)[1] for child in children]


def train(run: dict, rank: int) -> int:
    stop, (whom, *moment) = run.get("stop"), run.get("kill") or [None]
    if whom == rank:
        kill_in(*moment)
    if "train.compile=true" in run.get("said", []):  # traced alone: machine code takes long
        torch.compile = partial(torch.compile, backend="aot_eager")
    try:
        gf.train(run["recipe"], run.get("said", []), reporters=[Stop(stop)] if stop else [])
    except TrainingInterrupted:
        return 0 if stop else 1
    return 0


if __name__ == "__main__":
    for name in objective_names():  # imported once, before processes are forked
        find_objective(name)
    for run in json.loads(Path(sys.argv[1]).read_text()):
        if "like" in run:
            shutil.copytree(run["like"], run["recipe"]["run"]["out"])
        codes = forked(run["world"], partial(train, run))
        if "kill" in run:
            print(codes)
        elif any(codes):
            sys.exit(f"{run['recipe']['run']} on {run['world']}: {codes}")
