"""Mixed precision of forward and backward passes; weights stay in float32."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from glassformer.core.embedding import Embedding
from glassformer.core.norm import LayerNorm, RMSNorm
from glassformer.train.optimizers.shards import full_tensor

STREAM = (Embedding, LayerNorm, RMSNorm)  # modules that output the residual stream
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Precision:
    """Autocast and loss scaling.

    float16 has so few exponent bits that small gradients vanish: the loss is scaled up before the
    backward pass and the gradients are scaled down after it, by a factor that is adapted during
    training. A step whose gradients overflow is skipped.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self._device = device.type
        self._dtype = DTYPES.get(name)
        self._scaler = torch.amp.GradScaler(device.type, enabled=name == "float16")

    def narrow(self, model: nn.Module) -> None:
        """Keeps the residual stream in bfloat16 if that is the precision.

        Megatron and FSDP's mixed precision do the same; autocast would leave the outputs of
        embeddings and norms in float32, which doubles the bytes that all later layers read. float16
        could not hold the sums of deep stacks.
        """
        if self._dtype is not torch.bfloat16:
            return

        def narrowed(module: nn.Module, inputs: Any, out: Tensor) -> Tensor:
            return out.to(torch.bfloat16) if torch.is_autocast_enabled(self._device) else out

        for module in model.modules():
            if isinstance(module, STREAM):
                module.register_forward_hook(narrowed)

    def autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._device, self._dtype, enabled=self._dtype is not None)

    def backward(self, loss: Tensor) -> None:
        torch.autograd.backward(self._scaler.scale(loss))

    def step(self, optimizer: Optimizer, parameters: Iterable[nn.Parameter], clip: float) -> Tensor:
        """Clips the gradients, takes an optimizer step, and returns the unclipped gradient norm."""
        self._scaler.unscale_(optimizer)
        known = [parameter for parameter in parameters if parameter.grad is not None]
        length = full_tensor(nn.utils.get_total_norm([p.grad for p in known if p.grad is not None]))
        short = not length.is_cuda and float(length) < clip  # on a GPU this would synchronize
        if clip > 0 and not short:
            nn.utils.clip_grads_with_norm_(known, clip, length)
        self._scaler.step(optimizer)
        self._scaler.update()
        return length

    def state(self) -> dict[str, Any]:
        return self._scaler.state_dict()

    def restore(self, state: dict[str, Any]) -> None:
        if state:
            self._scaler.load_state_dict(state)
