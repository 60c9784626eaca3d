"""Optimizers, one module each: AdamW, Adafactor, Muon and SGD.

Modules of this folder that register an optimizer are found automatically.
"""

from glassformer.train.optimizers.registry import (
    OPTIMIZERS,
    make_optimizer,
    optimizer_options,
    state_tensors,
)

__all__ = ["OPTIMIZERS", "make_optimizer", "optimizer_options", "state_tensors"]
