"""What verbs that take a model have in common: which one, with which adapter, computed how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glassformer.cli.shared_options import AdapterOption, Device, Dtype, Source

if TYPE_CHECKING:
    from glassformer.model import Model


@dataclass(frozen=True)
class ModelOptions:
    """The model that a verb works with."""

    model: Source
    adapter: AdapterOption = None
    device: Device = "cpu"
    dtype: Dtype = None

    def load(self, **more: Any) -> Model:
        from glassformer.loading import load

        return load(self.model, self.device, self.dtype, adapter=self.adapter, **more)


def with_adapter(model: str | None, adapter: str | None, device: str) -> Model | str | None:
    """What an index is told of its model, where an adapter may be named with it or by itself."""
    from glassformer.loading import load

    if model is None or adapter is None:
        return model or adapter
    return load(model, device, adapter=adapter)
