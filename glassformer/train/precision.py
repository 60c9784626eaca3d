"""Which numbers the passes compute with. Weights stay float32 throughout."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from glassformer.core.embedding import Embedding
from glassformer.core.norm import LayerNorm, RMSNorm
from glassformer.train.optimizers.shards import whole

STREAM = (Embedding, LayerNorm, RMSNorm)  # what gives vectors of the stream, but for products
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Precision:
    """float16 has so few exponents that small gradients vanish: the loss is scaled up before the
    backward pass and gradients down behind it, by a factor that is found as it goes. A step whose
    gradients overflow is left out."""

    def __init__(self, name: str, device: torch.device) -> None:
        self._device = device.type
        self._dtype = DTYPES.get(name)
        self._scaler = torch.amp.GradScaler(device.type, enabled=name == "float16")

    def narrow(self, net: nn.Module) -> None:
        """In bfloat16 the stream between the layers is so, too, as Megatron and FSDP's mixed
        precision have it: autocast would leave what embeddings and norms give in float32, twice
        the bytes for all that reads it. (float16 could not hold the sums of deep stacks.)"""
        if self._dtype is not torch.bfloat16:
            return

        def narrowed(module: nn.Module, inputs: Any, out: Tensor) -> Tensor:
            return out.to(torch.bfloat16) if torch.is_autocast_enabled(self._device) else out

        for module in net.modules():
            if isinstance(module, STREAM):
                module.register_forward_hook(narrowed)

    def autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._device, self._dtype, enabled=self._dtype is not None)

    def backward(self, loss: Tensor) -> None:
        torch.autograd.backward(self._scaler.scale(loss))

    def step(self, optimizer: Optimizer, parameters: Iterable[nn.Parameter], clip: float) -> Tensor:
        """Clips, steps, and returns the gradient's length as it was before."""
        self._scaler.unscale_(optimizer)
        known = [parameter for parameter in parameters if parameter.grad is not None]
        length = whole(nn.utils.get_total_norm([p.grad for p in known if p.grad is not None]))
        short = not length.is_cuda and float(length) < clip  # a GPU would have to be waited for
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
