"""What all back ends ask of a model before they execute its step program."""

from __future__ import annotations

from functools import lru_cache

from torch import nn

from glassformer.core import Transformer
from glassformer.core.heads import Projection
from glassformer.core.linear import Linear
from glassformer.errors import UnsupportedError
from glassformer.generate.program import LinearOp, StepProgram, compile_program
from glassformer.spec import ModelSpec
from glassformer.weights.quantization import QuantizedLinear


def program_of(net: Transformer, activations: tuple[str, ...], quantized: bool) -> StepProgram:
    """Returns the step program of a model in its current state.

    Args:
        net: The model.
        activations: Those that the back end computes.
        quantized: Whether it computes quantized layers.

    Raises:
        UnsupportedError: The back end does not execute it; the message says why.
    """
    if net.training:
        raise UnsupportedError("The model is in training mode.", field="training")
    program = compiled(net.spec)
    if isinstance(program, UnsupportedError):
        raise program
    for operation in program.operations:
        if isinstance(operation, LinearOp) and operation.activation not in activations:
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
