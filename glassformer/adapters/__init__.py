"""Adapters: parameter-efficient fine-tuning of a model with few additional weights."""

from glassformer.adapters.adalora import after_step, penalty
from glassformer.adapters.adapter import (
    Adapter,
    active,
    adapters_of,
    remove,
    switch,
    switched_off,
)
from glassformer.adapters.add import add
from glassformer.adapters.base_model import AdapterBase
from glassformer.adapters.load import load_adapter
from glassformer.adapters.merge import merge, unmerge
from glassformer.adapters.save import write_adapter
from glassformer.adapters.settings import (
    KINDS,
    AdaLoRA,
    AdapterConfig,
    BitFit,
    Bottleneck,
    LoRA,
    Prefix,
    Prompt,
    make,
)

__all__ = [
    "KINDS",
    "AdaLoRA",
    "Adapter",
    "AdapterBase",
    "AdapterConfig",
    "BitFit",
    "Bottleneck",
    "LoRA",
    "Prefix",
    "Prompt",
    "active",
    "adapters_of",
    "add",
    "after_step",
    "load_adapter",
    "make",
    "merge",
    "penalty",
    "remove",
    "switch",
    "switched_off",
    "unmerge",
    "write_adapter",
]  # fmt: skip
