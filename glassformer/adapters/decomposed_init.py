"""Adapters that peft initialized from a decomposition of the model's weights (PiSSA, OLoRA).

PiSSA and OLoRA start with factors of the weight itself, B0 A0, and train with the residual
W - scale B0 A0 as the base weight. The folder contains only B and A, so a loader has to subtract
the same factors again. Here they are added to the adapter as ranks of the opposite sign, and the
model's weights stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from glassformer.adapters.target_modules import TargetModule
from glassformer.errors import UnsupportedError
from glassformer.weights.quantization import QuantizedLinear

Start = Callable[[Tensor, int, float], tuple[Tensor, Tensor]]
WEIGHTS_STAY = ("true", "false", "none", "gaussian", "eva", "orthogonal", "mica")


def pissa(weight: Tensor, rank: int, scale: float) -> tuple[Tensor, Tensor]:
    """Returns A0 and B0 from the largest singular values (Meng et al., 2024, section 3)."""
    left, values, right = torch.linalg.svd(weight, full_matrices=False)
    roots = (values[:rank] / scale).sqrt()
    return roots[:, None] * right[:rank], left[:, :rank] * roots


def olora(weight: Tensor, rank: int, scale: float) -> tuple[Tensor, Tensor]:
    """Returns A0 and B0, the first rows and columns of a QR decomposition (Buyukakyuz, 2024)."""
    orthogonal, upper = torch.linalg.qr(weight)
    return upper[:rank], orthogonal[:, :rank]


STARTS: dict[str, Start] = {"pissa": pissa, "olora": olora}


def start_of(config: Mapping[str, Any]) -> Start | None:
    """Returns the decomposition that an adapter was initialized with.

    None means that the base weights were not changed.
    """
    said = config.get("init_lora_weights")
    name = str(said).lower()
    if config["peft_type"] != "LORA" or name in WEIGHTS_STAY:
        return None
    if name not in STARTS:
        raise UnsupportedError(
            f"The adapter was initialized with init_lora_weights = {said!r}, which changed the "
            "weights of its base model in a way that cannot be repeated; save it again with "
            "peft's save_pretrained(..., path_initial_model_for_weight_conversion=...), or merge "
            "it into its base model with peft and load that.",
            field="init_lora_weights",
        )
    return STARTS[name]


def twice_the_ranks(config: dict[str, Any]) -> dict[str, Any]:
    """Adapts the config to a doubled number of ranks, so that the scales stay the same."""
    times = 2**0.5 if config.get("use_rslora") else 2
    ranks, alphas = config.get("rank_pattern") or {}, config.get("alpha_pattern") or {}
    return {
        **config,
        "r": 2 * config["r"],
        "lora_alpha": times * config["lora_alpha"],
        "rank_pattern": {name: 2 * rank for name, rank in ranks.items()},
        "alpha_pattern": {name: times * alpha for name, alpha in alphas.items()},
    }


@torch.no_grad()
def without_start(
    parts: Mapping[str, Tensor], place: TargetModule, start: Start, scale: float
) -> dict[str, Tensor]:
    """Appends the initial factors to A and B with the opposite sign, so that they are subtracted.

    Args:
        parts: A and B as stored in the file.
        place: The adapted layer.
        start: The decomposition, as returned by `start_of`.
        scale: The scale of the update.

    Returns:
        A and B with twice the ranks.
    """
    if isinstance(place.linear, QuantizedLinear):
        raise UnsupportedError(
            "The adapter was initialized from a decomposition of its base model's weights, which "
            "quantized weights do not have; load the model without quantize."
        )
    if start is olora and place.transposed:
        raise UnsupportedError(
            f"The adapter was initialized by OLoRA at {place.published}, whose weight is stored "
            "transposed; there, peft computes something else, so train the adapter as LoRA or "
            "PiSSA."
        )
    weight = place.hf(place.linear.weight[place.start : place.stop]).float()
    a, b = start(weight, len(parts["A"]), scale)
    return {
        "A": torch.cat((parts["A"].to(a), a)),
        "B": torch.cat((parts["B"].to(b), -b), dim=1),
    }
