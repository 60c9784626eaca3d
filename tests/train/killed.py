"""Runs a recipe again and again, each time in a process of its own that is killed at some moment,
and at last without being killed. `python killed.py RUNS.json`: recipes with their moments.

A moment is a function's name and how many times it is called before the process dies in it; a
number instead of a name is a time in seconds. Processes are forked from this one, which has
imported everything and computed nothing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from pydoc import locate

import glassformer as gf
import glassformer.train.trainer
from glassformer.train.objectives import objective_names
from glassformer.train.objectives.registry import find_objective


def kill_in(name: str, times: int) -> None:
    owner, leaf = name.rsplit(".", 1)
    place = locate(owner)
    function, left = getattr(place, leaf), times

    def killing(*words, **named):
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*words, **named)

    setattr(place, leaf, killing)


def in_a_process(recipe: dict, name: str | float | None, times: int) -> int:
    child = os.fork()
    if child == 0:
        try:
            if isinstance(name, str):
                kill_in(name, times)
            gf.train(recipe)
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
    if isinstance(name, float):
        time.sleep(name)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return status


if __name__ == "__main__":
    for name in objective_names():  # imported once, before processes are forked
        find_objective(name)
    for recipe, moments in json.loads(Path(sys.argv[1]).read_text()):
        for name, times in moments:
            status = in_a_process(recipe, name, times)
            died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            if not died and not isinstance(name, float):
                sys.exit(f"it was not killed in {name} ({times}): {status}")
        if in_a_process(recipe, None, 0):
            sys.exit("it could not go on")
