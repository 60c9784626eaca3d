"""A Transformer with the config and class name of its published checkpoint."""

from __future__ import annotations

from typing import Any

import torch

from glassformer.core import Transformer
from glassformer.weights.load_report import LoadReport


class PretrainedTransformer(Transformer):
    """The part of `glassformer.Model` that adapters use.

    Attributes:
        config: The contents of config.json.
        architecture: The name of the published model class.
        load_report: What happened to each tensor when the model was loaded.
    """

    config: dict[str, Any]
    architecture: str
    load_report: LoadReport

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return next(self.parameters()).dtype
