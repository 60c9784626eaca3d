"""Imports everything and makes the samples, so that a fork starts at once."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import jinja2.ext
import jinja2.sandbox
import sacremoses
import torch

import glassformer.loading
import glassformer.train.trainer
from tests.fuzz.registry import Reader, all_readers


def prepare(only: Sequence[str]) -> dict[str, Reader]:
    """Returns the readers, with their samples made."""
    torch.set_num_threads(1)
    warmed = torch.zeros(1, requires_grad=True)
    warmed.grad = torch.zeros(1)
    torch.optim.Adam([warmed]).step()  # imports more of torch
    loaded = (
        jinja2.ext,
        jinja2.sandbox,
        sacremoses,
        glassformer.loading,
        glassformer.train.trainer,
    )
    assert all(loaded)
    readers = all_readers()
    unknown = set(only) - set(readers)
    if unknown:
        sys.exit(f"There is no reader {min(unknown)!r}; there are {', '.join(readers)}.")
    chosen = {name: readers[name] for name in only or readers}
    for reader in chosen.values():
        reader.samples()
    gc.freeze()
    return chosen
