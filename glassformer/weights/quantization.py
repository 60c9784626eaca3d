"""Linear layers with 8-bit or 4-bit weights, for inference.

They are written here, because torch moved its own to the package torchao, which would be a
dependency.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.core import Transformer
from glassformer.core.linear import Linear
from glassformer.core.versioning import TensorVersion
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.native.torch_kernels import has_vnni
from glassformer.weights import int4, int8
from glassformer.weights.int4 import GROUP, Int4Weight
from glassformer.weights.int8 import Int8Weight
from glassformer.weights.portable_kernels import BlockwiseProduct, PackedProduct

KINDS = ("int8", "int4")
Kernel = Int8Weight | Int4Weight | PackedProduct | BlockwiseProduct


class QuantizedLinear(Linear):
    """A linear layer with quantized weights.

    With 8 bits, the weight is codes * scale, with one scale per row, and the kernel also rounds
    each row of the input to 8 bits. With 4 bits, it is (code - 8) * scale + zero, with two codes
    per byte and one scale and zero for each group of a row, and the kernel rounds each group of the
    input to 8 bits. The result for a row does not depend on the other rows of its batch.
    """

    codes: Tensor
    scale: Tensor
    zero: Tensor

    def __init__(self, linear: Linear, kind: str) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.parts, self.biased, self.has_partial_bias = (
            linear.parts,
            linear.biased,
            linear.has_partial_bias,
        )
        self.kind = kind if self.in_features % GROUP == 0 else "int8"
        make = quantize_int8 if self.kind == "int8" else quantize_int4
        for name, tensor in make(linear.weight.detach().float()).items():
            self.register_buffer(name, tensor)
        fixed = "bias" in linear._buffers
        (self.register_buffer if fixed else self.register_parameter)("bias", linear.bias)
        self._packed, self.forward_override, self.padded_weight = None, None, None

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        if self.kind == "int8":
            return self.codes * self.scale
        groups = self.whole_codes.view(len(self.codes), -1, GROUP)
        return (groups * self.scale[..., None] + self.zero[..., None]).flatten(1)

    @property
    def whole_codes(self) -> Tensor:
        """The codes as one int8 each, [out, in]; 4-bit codes are shifted to -8 to 7."""
        if self.kind == "int8":
            return self.codes
        return (torch.stack((self.codes & 15, self.codes >> 4), -1).flatten(1) - 8).to(torch.int8)

    def pack(self) -> None:
        """Builds the kernel for this machine; called at the first forward pass on a CPU.

        All kernels compute the same result.
        """
        kernel: Kernel
        if self.kind == "int8" and int8.library() is not None:
            kernel = Int8Weight(self.codes, self.scale)
        elif self.kind == "int8" and has_vnni():
            kernel = PackedProduct(self.codes, self.scale)
        elif self.kind == "int8":
            kernel = BlockwiseProduct(self.codes, self.scale)
        elif int4.library() is not None:
            kernel = Int4Weight(self.codes, self.scale, self.zero)
        else:
            kernel = BlockwiseProduct(self.whole_codes, self.scale, self.zero, GROUP)
        self._packed = kernel, TensorVersion(*self.buffers_of_weight)

    @property
    def buffers_of_weight(self) -> tuple[Tensor, ...]:
        """The buffers that the weight is computed from."""
        return (
            (self.codes, self.scale) if self.kind == "int8" else (self.codes, self.scale, self.zero)
        )

    def kernel(self) -> Any:
        """Returns the kernel, rebuilt if a buffer of the weight has changed."""
        packed = self._packed
        if packed is None or not packed[1].matches(*self.buffers_of_weight):
            self.pack()
            packed = self._packed
        assert packed is not None
        return packed[0]

    def forward(self, x: Tensor) -> Tensor:
        bias = self.full_bias
        here = x.device.type == "cpu" and not torch.compiler.is_compiling()
        # an adapter in an earlier layer may need gradients; the kernels have no backward pass
        learns = x.requires_grad and torch.is_grad_enabled()
        if not here or learns:
            return F.linear(x, self.weight.to(x.dtype), bias)
        y: Tensor = self.kernel().multiply(x, bias)
        return y.to(x.dtype)


def quantize_int8(weight: Tensor) -> dict[str, Tensor]:
    """Quantizes a weight [out, in] symmetrically to 8 bits, with one scale per row."""
    scale = (weight.abs().amax(1, keepdim=True) / 127).clamp(min=1e-30)
    return {"codes": (weight / scale).round().to(torch.int8), "scale": scale}


def quantize_int4(weight: Tensor) -> dict[str, Tensor]:
    """Quantizes a weight [out, in] to 4 bits: 15 steps from the minimum to the maximum of a group.

    Scale and zero are rounded to bfloat16, the precision in which the kernel stores them.
    """
    groups = weight.view(len(weight), -1, GROUP)
    low, high = groups.amin(-1), groups.amax(-1)
    scale = ((high - low) / 15).clamp(min=1e-30).bfloat16().float()
    zero = (low + 8 * scale).bfloat16().float()
    codes = ((groups - zero[..., None]) / scale[..., None] + 8).round().clamp(0, 15)
    pairs = codes.to(torch.uint8).view(len(weight), -1, 2)
    return {"codes": pairs[..., 0] | pairs[..., 1] << 4, "scale": scale, "zero": zero}


def is_quantized(model: nn.Module) -> bool:
    return any(isinstance(module, QuantizedLinear) for module in model.modules())


def quantize(model: nn.Module, kind: str) -> None:
    """Replaces the linear layers of a model by quantized ones, in place.

    Embeddings and norms stay as they are. A head that was tied to an embedding gets its own codes.

    Args:
        model: The model.
        kind: "int8" or "int4". Layers whose input size does not fit "int4" groups become "int8".
    """
    if kind not in KINDS:
        raise ConfigError(f"There is no quantization {kind!r}; choose one of {', '.join(KINDS)}.")
    if is_quantized(model):
        raise UnsupportedError("The model is quantized already; load it again for another kind.")
    if any(isinstance(m, Linear) and hasattr(m, "adapters") for m in model.modules()):
        raise UnsupportedError("The model has an adapter; merge or remove it, or quantize first.")
    made: dict[nn.Module, QuantizedLinear] = {}
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Linear):
                made[child] = made.get(child) or QuantizedLinear(child, kind)
                module._modules[name] = made[child]


def count_parameters(model: Transformer) -> int:
    """Counts the parameters, including the weights that quantized codes represent.

    Tied parameters count once, fixed tables not at all.
    """
    tied = {
        model.get_submodule(follower.rpartition(".")[0]) for _, follower in model.spec.tied_weights
    }
    coded = (m for m in model.modules() if isinstance(m, QuantizedLinear) and m not in tied)
    plain = sum(parameter.numel() for parameter in model.parameters())
    return plain + sum(layer.in_features * layer.out_features for layer in coded)
