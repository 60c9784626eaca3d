"""Which models the C++ back end executes, and why it does not execute the others."""

from __future__ import annotations

from functools import lru_cache

from torch import nn

from glassformer.core import Transformer
from glassformer.core.heads import Projection
from glassformer.core.linear import Linear
from glassformer.errors import UnsupportedError
from glassformer.generate.backends.cpp.build import library
from glassformer.generate.backends.cpp.structures import ACTIVATIONS, FORMS
from glassformer.generate.program import LinearOp, StepProgram, compile_program
from glassformer.spec import ModelSpec
from glassformer.weights.quantization import QuantizedLinear

PLAIN_LAYERS = (Linear, QuantizedLinear, Projection)


def supported_program(net: Transformer) -> StepProgram:
    """Returns the step program of a model that the back end executes in its current state.

    Raises:
        UnsupportedError: It does not; the message says why.
    """
    weight = next(net.parameters())
    if weight.device.type != "cpu":
        raise UnsupportedError(f"The model is on {weight.device}, not on the CPU.", field="device")
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
    strange = next((w.dtype for w in net.parameters() if w.dtype not in FORMS), None)
    if strange is not None:
        raise UnsupportedError(f"The compiled step has no weights of {strange}.", field="dtype")
    name = next((name for name, module in net.named_modules() if not is_plain(module)), None)
    if name is not None:
        raise UnsupportedError(
            f"{name or 'The model'} has a hook, an adapter or another module in its place.",
            field=name,
        )
    if library() is None:
        raise UnsupportedError("There is no working C++ compiler on this machine.", field="CXX")
    return program


def is_supported(net: Transformer) -> bool:
    """Returns whether the back end executes the model in its current state."""
    try:
        supported_program(net)
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


def is_plain(module: nn.Module) -> bool:
    """Returns whether a module computes what its spec says: no hook, wrapper or replacement."""
    if module._forward_hooks or module._forward_pre_hooks:
        return False
    if getattr(module, "active_wrapper", None) is not None:
        return False
    return not isinstance(module, nn.Linear) or type(module) in PLAIN_LAYERS
