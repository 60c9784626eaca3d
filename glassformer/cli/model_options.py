"""Options of commands that load a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glassformer.cli.shared_options import AdapterOption, Device, Download, Dtype, Source

if TYPE_CHECKING:
    from glassformer.model import Model


@dataclass(frozen=True)
class ModelOptions:
    """The model, its adapter, and how to compute it."""

    model: Source
    adapter: AdapterOption = None
    download: Download = False
    device: Device = "cpu"
    dtype: Dtype = None

    def load(self, **more: Any) -> Model:
        from glassformer.loading import load

        return load(self.model, self.device, self.dtype, adapter=self.adapter, **more)


def with_adapter(model: str | None, adapter: str | None, device: str) -> Model | str | None:
    """Returns the model argument of an index: a model with its adapter, or either one alone."""
    from glassformer.loading import load

    if model is None or adapter is None:
        return model or adapter
    return load(model, device, adapter=adapter)
