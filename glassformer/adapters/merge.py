"""Merging of an adapter into the model's weights, and the reverse."""

from __future__ import annotations

import torch

from glassformer.adapters.adapter import adapters_of, remove, switch
from glassformer.adapters.low_rank import LowRank
from glassformer.adapters.settings import AdaLoRA, BitFit, LoRA
from glassformer.core import Transformer
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.weights.quantization import QuantizedLinear


@torch.no_grad()
def merge(model: Transformer, name: str, *, forget: bool = False) -> None:
    """Adds an adapter's update to the weights and turns the adapter off.

    Args:
        model: The model.
        name: The adapter, of kind LoRA, AdaLoRA or BitFit.
        forget: Removes the adapter. Otherwise the original values of the changed rows are kept for
            `unmerge`.
    """
    switch(model, name)
    adapter = adapters_of(model)[name]
    if not isinstance(adapter.settings, LoRA | AdaLoRA | BitFit):
        raise UnsupportedError(
            f"The adapter {name!r} does not change weights, so it cannot be merged into them; "
            "keep it as an adapter."
        )
    shared = {id(model.get_parameter(n)) for pair in model.spec.tied_weights for n in pair}
    for place in adapter.places.values():
        if isinstance(place.linear, QuantizedLinear):
            raise UnsupportedError(
                "An adapter cannot be merged into quantized weights; load the model without "
                "quantize."
            )
        if id(place.linear.weight) in shared:
            raise UnsupportedError(
                f"{place.published} shares its weight with another layer, which would change too; "
                "keep the adapter unmerged."
            )
    adapter.turn_off(model)
    kept = {}
    for published, place in adapter.places.items():
        part, rows = adapter.parts[published], place.linear.weight[place.start : place.stop]
        assert isinstance(part, LowRank)
        kept[published] = rows.clone()
        rows += part.delta().to(rows.dtype)
    adapter._swap(model, adapter.own)
    if forget:
        adapter.kept.clear()
        remove(model, name)
    else:
        adapter.merged = kept


@torch.no_grad()
def unmerge(model: Transformer, name: str) -> None:
    """Restores the exact weights from before `merge` and turns the adapter on.

    Args:
        model: The model.
        name: The adapter.
    """
    adapter = adapters_of(model).get(name)
    if adapter is None or adapter.merged is None:
        raise ConfigError(f"The adapter {name!r} is not merged into the weights.")
    for published, rows in adapter.merged.items():
        place = adapter.places[published]
        place.linear.weight[place.start : place.stop] = rows
    adapter.merged = None
    adapter._swap(model, adapter.kept)
    switch(model, name)
