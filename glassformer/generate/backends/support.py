"""What all back ends ask of a model before they execute its step program."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from torch import nn

from glassformer.core import Transformer
from glassformer.core.heads import Projection
from glassformer.core.linear import Linear
from glassformer.errors import UnsupportedError
from glassformer.generate.program import LinearOp, StepProgram, compile_program
from glassformer.spec import ModelSpec
from glassformer.weights.quantization import QuantizedLinear

ACTIVATIONS = (
    "linear",
    "relu",
    "relu2",
    "gelu",
    "gelu_tanh",
    "gelu_sigmoid",
    "silu",
    "tanh",
    "sigmoid",
)
"""The activations that the back ends compute, in the order of simd.h."""


def program_of(net: Transformer, quantized: bool) -> StepProgram:
    """Returns the step program of a model in its current state.

    Args:
        net: The model.
        quantized: Whether the back end computes quantized layers.

    Raises:
        UnsupportedError: The back end does not execute it; the message says why.
    """
    if net.training:
        raise UnsupportedError("The model is in training mode.", field="training")
    program = compiled(net.spec)
    if isinstance(program, UnsupportedError):
        raise program
    for operation in program.operations:
        if isinstance(operation, LinearOp) and operation.activation not in ACTIVATIONS:
            raise UnsupportedError(
                f"The compiled step has no activation {operation.activation!r}.", field="activation"
            )
    plain = (Linear, Projection, QuantizedLinear) if quantized else (Linear, Projection)
    for name, module in net.named_modules():
        if not is_plain(module, plain):
            raise UnsupportedError(
                f"{name or 'The model'} has a hook, an adapter or another module in its place.",
                field=name,
            )
    return program


def accepts(check: Callable[[Transformer], StepProgram], net: Transformer) -> bool:
    """Returns whether a back end, whose check this is, executes a model in its current state."""
    try:
        check(net)
    except UnsupportedError:
        return False
    return True


@lru_cache(maxsize=16)
def compiled(spec: ModelSpec) -> StepProgram | UnsupportedError:
    """Returns the program of a spec, or the error for the part that has none."""
    try:
        return compile_program(spec)
    except UnsupportedError as error:
        return error


def is_plain(module: nn.Module, layers: tuple[type[Linear], ...]) -> bool:
    """Returns whether a module computes what its spec says: no hook, wrapper or replacement."""
    if module._forward_hooks or module._forward_pre_hooks:
        return False
    if getattr(module, "active_wrapper", None) is not None:
        return False
    return not isinstance(module, nn.Linear) or type(module) in layers


def layer_of(net: Transformer, path: str) -> Linear:
    """Returns a linear layer that a program names."""
    layer = net.get_submodule(path)
    assert isinstance(layer, Linear)
    return layer


def position_of(net: Transformer, block: int) -> nn.Module:
    """Returns the module of a block's positions."""
    assert net.decoder is not None
    index = net.decoder.position_of[block]
    assert index is not None
    return net.decoder.positions[index]
