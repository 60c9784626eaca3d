"""Optimizers: AdamW, Adafactor, Muon and SGD."""

from glassformer.train.optimizers.registry import OPTIMIZERS, make_optimizer, state_tensors

__all__ = ["OPTIMIZERS", "make_optimizer", "state_tensors"]
